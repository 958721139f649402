"""The tab key completes commands and options, in a real shell, and starts no database."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import Rag

SHELLS = ("bash", "zsh", "fish")


def completed(line: str, home: Path) -> list[str]:
    """What bash would offer at the end of the line."""
    words = line.split(" ")
    answer = subprocess.run(
        [sys.executable, "-m", "rag_assets.cli"],
        env={**os.environ, "_RAG_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1),
             "RAG_HOME": str(home)},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return answer.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rag pro", ["promote", "profile"]),
        ("rag eval ga", ["gate"]),
        ("rag eval gate --cand", ["--candidate"]),
        ("rag search --mode l", ["lexical"]),
        ("rag completion z", ["zsh"]),
    ],
)
def test_the_tab_key_offers_commands_options_and_choices(tmp_path: Path, line: str, offered: list[str]) -> None:
    assert completed(line, tmp_path / "none") == offered
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed_or_installed_where_the_shell_finds_it(
    rag: Rag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    script = rag("completion", shell).stdout
    assert "_RAG_COMPLETE" in script
    assert list(tmp_path.iterdir()) == []
    found = rag.json("completion", shell, "--install")
    assert found["script"].strip() == script.strip()
    assert found["script"].strip() in Path(found["path"]).read_text()
    assert Path(found["path"]).is_relative_to(tmp_path)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_takes_the_script(rag: Rag) -> None:
    script = rag("completion", "bash").stdout
    done = subprocess.run(["bash", "-c", f"{script}\ncomplete -p rag"], capture_output=True, text=True, check=True)
    assert "_rag_completion rag" in done.stdout


def test_an_unknown_shell_is_wrong_use(rag: Rag) -> None:
    assert "tcsh" in rag.error("completion", "tcsh")[1]
