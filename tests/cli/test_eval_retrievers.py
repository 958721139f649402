"""A retriever of a file is measured and judged as a mode is, and moves no profile by it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets.settings import Settings
from rag_assets.store.database import Database
from tests.support.command_line import Rag
from tests.support.labelled_world import COARSE, DOCUMENTS, FINE, labelled_bot, write_collection

pytestmark = pytest.mark.slow  # whole evaluations of two profiles in each
TENANT = "files"
WORDS = ("--tenant", TENANT, "--bot", "b")
ANY_SPEED = ("--max-p95-ratio", "1000")


@pytest.fixture(scope="module")
def shared(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A labelled bot: words find every document, the dense search of the active profile few of them."""
    from rag_assets.commands.session import ready_database

    with ready_database(Settings(home=home, database_url=None)) as database:
        labelled_bot(database, TENANT, write_collection(tmp_path_factory.mktemp("labelled")))
        yield database


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


@pytest.fixture
def words_file(tmp_path: Path) -> str:
    return written(tmp_path, "words.toml", 'kind = "lexical"\n')


@pytest.fixture
def vectors_file(tmp_path: Path) -> str:
    return written(tmp_path, "vectors.toml", 'kind = "dense"\n')


def test_a_run_is_asked_through_the_retriever_and_recorded_with_it(rag: Rag, shared: Database, words_file: str) -> None:
    found = rag.json("eval", "run", *WORDS, "--profile", COARSE, "--retriever", words_file)
    usual = rag.json("eval", "run", *WORDS, "--profile", COARSE, "--mode", "lexical")
    assert (found["mode"], found["retriever"], found["profile"]) == (None, words_file, COARSE)
    assert (usual["mode"], usual["retriever"]) == ("lexical", None)
    assert found["recall@5"] == usual["recall@5"] == 1
    with shared.work(TENANT) as connection:
        rows = connection.execute(
            "SELECT mode, settings -> 'retriever' FROM rag.eval_runs WHERE id = ANY (%s) ORDER BY id",
            ([found["run"], usual["run"]],),
        ).fetchall()
    assert rows == [("retriever", {"kind": "lexical"}), ("lexical", None)]
    shown = rag("eval", "run", *WORDS, "--profile", COARSE, "--retriever", words_file).stdout
    assert "retriever" in shown.splitlines()[1]


def test_the_order_of_the_retriever_is_what_is_measured(rag: Rag, shared: Database, tmp_path: Path) -> None:
    """Reranking changes the order and not the scores of the search."""
    reranked = (
        'kind = "reranked"\nk_out = 10\ntau = 0.0\nlimit_s = 60.0\n[retriever]\nkind = "dense"\n'
        '[reranker]\nkind = "bi_encoder"\n[reranker.profile]\nprovider = "hash"\nmodel = "hash"\ndimensions = 256\n'
    )
    path = written(tmp_path, "reranked.toml", reranked)
    found = rag.json("eval", "run", *WORDS, "--profile", COARSE, "--retriever", path)
    plain = rag.json("eval", "run", *WORDS, "--profile", COARSE, "--mode", "dense")
    assert found["mrr@10"] > plain["mrr@10"]
    assert found["recall@5"] > plain["recall@5"]


def test_a_sweep_has_retrievers_beside_modes(rag: Rag, shared: Database, words_file: str, vectors_file: str) -> None:
    files = ("--retriever", words_file, "--retriever", vectors_file)
    rows = rag.json("eval", "sweep", *WORDS, "--profile", FINE, "--mode", "hybrid", *files)["runs"]
    assert [(row["mode"], row["retriever"]) for row in rows] == [
        ("hybrid", None),
        (None, words_file),
        (None, vectors_file),
    ]
    assert all(row["queries"] == DOCUMENTS for row in rows)


def test_a_retriever_is_judged_against_the_mode_of_its_profile(rag: Rag, shared: Database, words_file: str) -> None:
    asked = ("eval", "gate", *WORDS, "--candidate", COARSE, "--mode", "dense", "--retriever", words_file, *ANY_SPEED)
    found = rag.json(*asked)
    assert (found["outcome"], found["candidate"], found["baseline"]) == ("passed", COARSE, COARSE)
    assert (found["retriever"], found["baseline_retriever"], found["asked_alike"]) == (words_file, None, False)
    baseline, candidate = found["measured"]
    assert candidate["recall@5"] > baseline["recall@5"]
    shown = rag(*asked).stdout
    assert "no profile is promoted" in shown
    assert "rag promote" not in shown


def test_a_worse_retriever_is_refused(rag: Rag, shared: Database, words_file: str, vectors_file: str) -> None:
    sides = ("--retriever", vectors_file, "--baseline-retriever", words_file)
    found = rag.json("eval", "gate", *WORDS, "--candidate", COARSE, *sides, *ANY_SPEED, code=1)
    assert found["outcome"] == "refused"
    assert found["baseline_retriever"] == words_file


def test_a_verdict_on_two_ways_of_asking_promotes_no_profile(
    rag: Rag, shared: Database, words_file: str, vectors_file: str
) -> None:
    sides = ("--retriever", words_file, "--baseline-retriever", vectors_file)
    found = rag.json("eval", "gate", *WORDS, "--candidate", FINE, *sides, *ANY_SPEED)
    assert (found["outcome"], found["asked_alike"]) == ("passed", False)
    assert "has no verdict" in rag.error("promote", FINE, *WORDS, code=1)[1]


def test_two_profiles_asked_through_one_retriever_are_compared_as_profiles(
    rag: Rag, shared: Database, vectors_file: str
) -> None:
    found = rag.json("eval", "gate", *WORDS, "--candidate", FINE, "--retriever", vectors_file, *ANY_SPEED)
    assert (found["outcome"], found["asked_alike"]) == ("passed", True)
    assert found["baseline_retriever"] == vectors_file


def test_a_reranker_that_is_away_decides_nothing(rag: Rag, shared: Database, tmp_path: Path) -> None:
    away = (
        'kind = "reranked"\n[retriever]\nkind = "lexical"\n'
        '[reranker]\nkind = "rerank_server"\nmodel = "m"\nshape = "jina"\nbase_url = "http://127.0.0.1:9"\n'
    )
    path = written(tmp_path, "away.toml", away)
    found = rag.json("eval", "gate", *WORDS, "--candidate", COARSE, "--mode", "dense", "--retriever", path, code=2)
    assert found["outcome"] == "undecided"
    assert any("not reranked" in problem for problem in [one["reason"] for one in found["criteria"]])


@pytest.mark.parametrize("command", ["run", "sweep", "gate", "report"])
def test_a_file_that_is_no_retriever_is_wrong_use(rag: Rag, shared: Database, tmp_path: Path, command: str) -> None:
    more = {"gate": ("--candidate", FINE), "report": ("--candidate", FINE, "--out", str(tmp_path / "r.md"))}
    for text, said in (
        ('kind = "hybird"', "did you mean 'hybrid'?"),
        ("dense_weight = 1", "says which kind it is"),
        ('kind = "bi_encoder"\nprofile = "static-64"', "no retriever, but a part of one"),
    ):
        path = written(tmp_path, "wrong.toml", text)
        words = ("eval", command, *WORDS, *more.get(command, ()), "--retriever", path)
        assert said in rag.error(*words, code=2)[1]
        assert path in rag.error(*words, code=2)[1].replace("\n", "")


def test_a_weight_is_for_a_mode(rag: Rag, shared: Database, words_file: str) -> None:
    words = ("eval", "run", *WORDS, "--profile", FINE, "--weight", "0.3", "--retriever", words_file)
    assert "--weight goes with a --mode" in rag.error(*words, code=2)[1]


def test_a_report_says_how_it_was_asked(rag: Rag, shared: Database, words_file: str, tmp_path: Path) -> None:
    out = tmp_path / "report.md"
    words = ("eval", "report", *WORDS, "--candidate", FINE, "--baseline", COARSE, "--retriever", words_file)
    assert rag.json(*words, "--out", str(out))["mode"] is None
    assert "words.toml" in out.read_text(encoding="utf-8")
