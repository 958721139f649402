"""`rag compare`: two sides, what differs between them, and the page that shows it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from starlette.testclient import TestClient

from rag_assets.doors.compare.page import ComparePage
from rag_assets.doors.compare.sides import Asker
from rag_assets.retrieval.files import read_retriever_file
from rag_assets.store.database import Database
from tests.support.signals import hear_ctrl_c

if TYPE_CHECKING:
    from tests.support.command_line import Rag

QUESTION = "PX-4412 cut-in pressure"


def _between(tenant: str, first: str, second: str, *query: str) -> tuple[str, ...]:
    return ("compare", first, second, *query, "--tenant", tenant, "--bot", "b")


def test_each_result_says_where_the_other_side_has_it(rag: Rag, filled: str) -> None:
    found = rag.json(*_between(filled, "@lexical", "tiny@dense", QUESTION), "-k", "2")
    assert (found["first"]["mode"], found["second"]["mode"]) == ("lexical", "dense")
    (only,) = found["first"]["results"]  # the other text has none of the words
    assert only["source_name"] == "pump.md"
    there = [one["chunk_id"] for one in found["second"]["results"]]
    assert there[only["other_place"] - 1] == only["chunk_id"]
    changes = {one["source_name"]: one["change"] for one in found["second"]["results"]}
    assert changes["returns.txt"] == "only here"


def test_a_fused_result_says_its_place_in_each_list(rag: Rag, filled: str) -> None:
    found = rag.json(*_between(filled, "@hybrid", "@lexical", QUESTION))
    pump = next(one for one in found["first"]["results"] if one["source_name"] == "pump.md")
    assert pump["places"]["lexical"] == 1
    assert 1 <= pump["places"]["dense"] <= 2


def test_a_file_of_a_retriever_is_a_side(rag: Rag, filled: str, tmp_path: Path) -> None:
    file = tmp_path / "words.toml"
    file.write_text('kind = "lexical"\n')
    found = rag.json(*_between(filled, str(file), "@lexical", QUESTION))
    assert found["first"]["retriever"] == str(file)
    assert [one["change"] for one in found["first"]["results"]] == ["same"]


def test_a_person_sees_both_sides(rag: Rag, filled: str) -> None:
    shown = rag(*_between(filled, "@lexical", "@dense", QUESTION)).stdout
    assert "@lexical: profile tiny, lexical" in shown
    assert "@dense: profile tiny, dense" in shown
    assert "only here" in shown


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("@hybrd", "neither a mode"), ("tiny@", "names no side"), ("", "names no side"), ("nope", "no profile"),
        ("tiny@nowhere.toml", "cannot be read"), ("@", "names no side"), ("a b@dense", "profile"),
    ],
)  # fmt: skip
def test_what_is_no_side_is_told(rag: Rag, filled: str, first: str, said: str) -> None:
    assert said in rag.error(*_between(filled, first, "@dense", QUESTION))[1]


def test_one_side_alone_is_refused(rag: Rag, filled: str) -> None:
    assert "two sides" in rag.error("compare", "@dense", "--tenant", filled, "--bot", "b")[1]


@pytest.fixture
def labelled(rag: Rag, filled: str, documents: Path, tmp_path: Path) -> str:
    """The tenant with two labelled queries, of which words alone answer one."""
    folder = tmp_path / "labels"
    folder.mkdir()
    (folder / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "PX-4412"}\n{"_id": "q2", "text": "xylophone music"}\n'
    )
    (folder / "qrels.tsv").write_text("q1\tpump.md\t1\nq2\treturns.txt\t1\n")
    rag("eval", "import", str(folder), "--tenant", filled, "--bot", "b")
    return filled


def test_without_a_question_the_labelled_queries_that_differ_are_told(rag: Rag, labelled: str) -> None:
    found = rag.json(*_between(labelled, "@lexical", "@dense"))
    assert found["metrics"]["recall@5"] == {
        "first": 0.5, "second": 1.0, "difference": 0.5, "p_value": pytest.approx(1.0, abs=0.6),
        "better": 1, "worse": 0, "equal": 1,
    }  # fmt: skip
    assert found["queries"][0]["id"] == "q2"
    assert "xylophone music" in rag(*_between(labelled, "@lexical", "@dense")).stdout


def test_labelled_queries_are_asked_as_they_are(rag: Rag, labelled: str) -> None:
    words = _between(labelled, "@lexical", "@dense")
    assert "go with a QUERY" in rag.error(*words, "--user", "u")[1]
    assert "go with a QUERY" in rag.error(*words, "--filter", "source=pump.md")[1]


def test_without_labelled_queries_it_says_how_to_import_some(rag: Rag, filled: str) -> None:
    assert "rag eval import" in rag.error(*_between(filled, "@lexical", "@dense"))[1]


@pytest.fixture
def page(labelled: str, tmp_path: Path) -> Iterator[TestClient]:
    """The page, offered a file and the list by meaning."""
    file = tmp_path / "words.toml"
    file.write_text('kind = "lexical"\n')
    files = {str(file): read_retriever_file(file)}
    database = Database.from_settings()
    shown = ComparePage(database, Asker(labelled, "b"), (str(file), "@dense"), files)
    with TestClient(shown.app(), base_url="http://127.0.0.1") as client:
        yield client
    database.close()


def test_the_page_shows_both_answers_and_marks_what_differs(page: TestClient) -> None:
    shown = page.get("/", params={"q": QUESTION})
    assert shown.status_code == 200
    assert shown.text.count('class="hit') == 3
    assert shown.text.count("hit only-here") == 1
    assert "script" not in shown.headers["content-security-policy"]


def test_the_page_shows_what_is_asked_as_text(page: TestClient) -> None:
    attack = '"><script>alert(1)</script>'
    shown = page.get("/", params={"q": attack, "a": f"tiny@{attack}"})
    assert shown.status_code == 400
    assert "<script" not in shown.text
    assert "<script" not in page.get("/", params={"q": attack}).text


def test_the_page_reads_no_file_but_those_that_were_named(page: TestClient, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text('kind = "lexical"\n')
    shown = page.get("/", params={"q": QUESTION, "a": str(other)})
    assert shown.status_code == 400
    assert "was not named when this page was started" in shown.text


def test_the_page_says_which_profile_was_meant(page: TestClient) -> None:
    for path in ("/", "/labelled"):
        shown = page.get(path, params={"q": QUESTION, "a": "static-265"})
        assert shown.status_code == 400
        assert "did you mean &#39;static-256&#39;" in shown.text


def test_the_page_measures_the_labelled_queries(page: TestClient) -> None:
    shown = page.get("/labelled").text
    assert "Mean of 2 judged queries" in shown
    assert "0.00 → 1.00" in shown


def test_pages_of_other_sites_are_kept_out(page: TestClient) -> None:
    for headers in (
        {"host": "evil.example"}, {"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"},
    ):  # fmt: skip
        answer = page.get("/", params={"q": QUESTION}, headers=headers)
        assert answer.status_code == 403
        assert "pump" not in answer.text


def test_a_port_that_is_taken_is_told(rag: Rag, filled: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        error = rag("compare", "--tenant", filled, "--bot", "b", "--serve", "--port", port, code=2)
        assert "choose another --port" in error.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_the_command_serves_the_page_until_it_is_told_to_end(
    filled: str, home: Path, number: signal.Signals, code: int
) -> None:
    words = ["compare", "--tenant", filled, "--bot", "b", "--serve", "--port", "0"]
    command = [sys.executable, "-m", "rag_assets.cli", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hear_ctrl_c) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/", said)
        assert address, said
        shown = _first(address[0] + "?q=PX-4412")
        assert shown.status_code == 200
        assert "@hybrid" in shown.text
        process.send_signal(number)
        rest = process.stderr.read()
        assert process.wait(20) == code
    assert "Traceback" not in rest


def _first(address: str) -> httpx.Response:
    """The first answer of a server that is starting."""
    for _ in range(200):
        try:
            return httpx.get(address, timeout=30)
        except httpx.ConnectError:
            time.sleep(0.05)
    raise AssertionError("the page did not come up")
