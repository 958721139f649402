"""What docs/doors/http.md shows is answered."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

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
    token = token_for(database, "web", "acme")
    curls = [line for line in re.findall(r"^curl .*$", PAGE, re.MULTILINE) if "/feedback" not in line]
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(curls) == 3
    with serving(database) as door, door.client() as client:
        for line in curls:
            words = shlex.split(line.replace("$TOKEN", token).replace("http://127.0.0.1:8000", door.url))
            named = dict(zip(words[2::2], words[3::2], strict=True))
            headers = dict(words[n + 1].split(": ", 1) for n, word in enumerate(words) if word == "-H")
            answer = client.request(
                "POST" if "-d" in named else "GET", words[1], content=named.get("-d"), headers=headers
            )
            assert answer.status_code == 200, answer.text
            assert "warranty.md" in answer.text
        exec(compile(example, "http.md", "exec"), {"address": door.url, "token": token})
    assert "five years" in capsys.readouterr().out
