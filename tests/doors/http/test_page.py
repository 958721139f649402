"""What docs/doors/http.md shows is answered."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import httpx
import pytest

from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database
from tests.support.http_door import serving, token_for

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "doors" / "http.md").read_text(encoding="utf-8")


def test_every_example_of_the_page_is_answered(
    database: Database, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "warranty.md").write_text("# Warranty\n\nEvery pump has a warranty of five years, from delivery on.\n")
    ingest(database, "acme", "support", "hash-64", [root])
    token = token_for(database, "web", "acme", may=["search", "push"])
    curls = [line for line in re.findall(r"^curl .*$", PAGE, re.MULTILINE) if "/feedback" not in line]
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(curls) == 7
    with serving(database) as door, door.client() as client:
        for line in curls:
            answer = _asked(client, line.replace("$TOKEN", token).replace("http://127.0.0.1:8000", door.url))
            assert answer.status_code in (200, 202), answer.text
            wanted = "manual-7" if "manual-7" in line else "faq/17" if "faq/17" in line else "warranty.md"
            assert wanted in answer.text
        exec(compile(example, "http.md", "exec"), {"address": door.url, "token": token})
    assert "five years" in capsys.readouterr().out


def _asked(client: httpx.Client, line: str) -> httpx.Response:
    """What curl would send."""
    words = iter(shlex.split(line)[1:])
    headers: dict[str, str] = {}
    method, url, content = None, "", None
    for word in words:
        match word:
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            case "-X":
                method = next(words)
            case "-d":
                method, content = method or "POST", next(words).encode()
            case "-T":
                method, content = "PUT", f"the bytes of {next(words)}".encode()
            case _:
                url = word
    return client.request(method or "GET", url, content=content, headers=headers)
