from __future__ import annotations

import subprocess
import sys

import pytest


def _demo() -> str:
    run = subprocess.run(
        [sys.executable, "-m", "rag_assets.demo"], capture_output=True, text=True, check=False, timeout=120
    )
    assert run.returncode == 0, run.stderr
    return " ".join(run.stdout.split())


@pytest.mark.slow
def test_the_demo_answers_from_both_tenants_and_changes_nothing_the_second_time() -> None:
    first = _demo()
    assert "69 sources served (69 new or changed, 0 unchanged)" in first
    assert "75 sources served (75 new or changed, 0 unchanged)" in first
    assert "1. troubleshooting/webshop-errors.txt" in first
    assert "1. account/two-factor.md" in first
    assert "1. de/zeitfenster.md" in first
    assert "each from a document of the tenant that was asked" in first
    assert "http://localhost:3000" in first
    assert "static-256 against static-64, dense: passed" in first
    assert "static-256 serves now; before: static-64" in first
    assert first.index("before, by static-64") < first.index("now, by static-256")
    assert "static-64 against static-256, dense: refused" in first
    assert "refused: the verdict on 'static-64' of" in first
    second = _demo()
    assert "69 sources served (0 new or changed, 69 unchanged)" in second
    assert "75 sources served (0 new or changed, 75 unchanged)" in second
    assert second.count("0 chunks written, 0 embedded") == 3
    assert "static-256 serves already" in second
    assert "refused: the verdict on 'static-64' of" in second
