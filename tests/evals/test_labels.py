"""What labels name in a bot's sources: nothing is judged by a name that two documents have, or by one that none has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from evals.datasets import EvalSet, Query
from evals.gate import GateInput, GatePolicy, decide
from evals.labels import Labels
from evals.metrics import evaluate
from evals.naming import labels_of, resolve
from evals.runner import judge, measure, run_queries
from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database
from rag_assets.store.evals import LabelSource
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant
from tests.support.labelled_world import COARSE, FINE, add_profiles, labelled_bot, texts, write_collection, write_corpus
from tests.support.worlds import write_files

MANUAL = "The pump is primed with two litres of water before the first start."
RETURNS = "Goods are returned within thirty days with the receipt."
COPIED = "Every plug is pulled before the housing is opened."


def labelled(qrels: dict[str, dict[str, int]], **texts: str) -> EvalSet:
    return EvalSet(tuple(Query(name, texts.get(name, name)) for name in qrels), qrels)


def source(number: int, document: str, uri: str, checksum: str = "", holds_text: bool = True) -> LabelSource:
    return LabelSource(UUID(int=number), document, uri, checksum or str(number), holds_text)


@pytest.fixture(scope="module")
def two_roots(new_database: Callable[[], Database], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Bot `acme/b` with a README.md in each of two roots, and a text that lies in both of them."""
    database, folder = new_database(), tmp_path_factory.mktemp("roots")
    add_profiles(database)
    add_tenant(database, "acme", "b")
    for name, text in (("manuals", MANUAL), ("shop", RETURNS)):
        files = {"README.md": text, f"{name}-safety.md": COPIED, f"{name}.md": f"All about {name}."}
        add_root(database, "acme", "b", str(write_files(folder / name, files)))
    for profile in (COARSE, FINE):
        ingest(database, "acme", "b", profile)
    yield database
    database.close()


def recall(database: Database, evalset: EvalSet) -> float:
    run = run_queries(database, "acme", "b", FINE, evalset, "lexical")
    return float(evaluate(evalset, run).means["recall@1"])


def test_a_name_that_two_documents_have_is_told_at_the_import_and_judges_nothing(
    two_roots: Database, tmp_path: Path
) -> None:
    evalset = labelled({"q": {"README.md": 1}}, q="when are goods returned")
    labels = labels_of(two_roots, "acme", "b", evalset)
    assert labels.ambiguous == {"README.md": ("manuals/README.md", "shop/README.md")}
    (problem,) = labels.problems()
    assert problem == (
        "the labelled document README.md is 2 different sources: name the one that is meant by more of its address, as "
        "manuals/README.md or shop/README.md"
    )
    verdict = judge(two_roots, "acme", "b", FINE, evalset=evalset, policy=GatePolicy(min_queries=1)).verdict
    (criterion,) = [one for one in verdict.criteria if one.name == "labels"]
    assert (criterion.passed, criterion.reason) == (None, problem)
    assert {one.name: one.passed for one in verdict.criteria}["recall_gain"] is None
    assert problem in measure(two_roots, "acme", "b", FINE, evalset=evalset).problems


@pytest.mark.parametrize("name", ["{}/README.md", "file:///whole"])
def test_more_of_an_address_tells_documents_apart_and_the_wrong_one_is_no_hit(two_roots: Database, name: str) -> None:
    with two_roots.work("acme") as connection:
        rows = connection.execute("SELECT external_id FROM rag.knowledge_sources WHERE name = 'README.md'").fetchall()
    uri = {root: next(uri for (uri,) in rows if f"/{root}/" in uri) for root in ("manuals", "shop")}
    for root, expected in (("shop", 1.0), ("manuals", 0.0)):
        label = uri[root] if name.startswith("file") else name.format(root)
        evalset = labelled({"q": {label: 1}}, q="when are goods returned")
        assert labels_of(two_roots, "acme", "b", evalset).ambiguous == {}
        assert recall(two_roots, evalset) == expected


def test_labels_by_a_name_that_only_one_document_has_stay_as_they_are(two_roots: Database) -> None:
    evalset = labelled({"q": {"shop.md": 1}}, q="all about shop")
    assert list(labels_of(two_roots, "acme", "b", evalset).problems()) == []
    assert recall(two_roots, evalset) == 1.0


@pytest.mark.parametrize("document", ["manuals-safety.md", "shop-safety.md"])
def test_a_text_that_is_returned_once_counts_for_the_documents_at_all_its_places(
    two_roots: Database, document: str
) -> None:
    assert recall(two_roots, labelled({"q": {document: 1}}, q="pull the plug, open the housing")) == 1.0


def test_a_name_of_two_copies_of_one_text_is_not_ambiguous() -> None:
    evalset = labelled({"q": {"a.md": 1}})
    found = resolve(evalset, [source(1, "a.md", "file:///x/a.md", "same"), source(2, "a.md", "file:///y/a.md", "same")])
    assert (found.ambiguous, set(found.names)) == ({}, {UUID(int=1), UUID(int=2)})


def test_records_of_two_tables_with_the_same_numbers_are_told_apart_too() -> None:
    evalset = labelled({"q": {"1": 1, "b/faq.csv#2": 1, "nowhere/faq.csv#2": 1, "x": 0}})
    sources = [
        source(10 * place + number, str(number), f"file:///{root}/faq.csv#{number}")
        for place, root in enumerate("ab")
        for number in (1, 2)
    ]
    found = resolve(evalset, sources)
    assert found.ambiguous == {"1": ("a/faq.csv#1", "b/faq.csv#1")}
    assert found.names[UUID(int=12)] == ("b/faq.csv#2",)
    assert (found.absent, found.labels, found.lost) == (("nowhere/faq.csv#2",), 3, 1)


def test_a_source_that_nothing_could_be_read_from_answers_no_label() -> None:
    evalset = labelled({"q": {"scan.pdf": 1, "b.md": 1}})
    scan = source(1, "scan.pdf", "file:///scan.pdf", holds_text=False)
    found = resolve(evalset, [scan, source(2, "b.md", "file:///b.md")])
    assert (found.empty, found.absent, found.lost, found.labels) == (("scan.pdf",), (), 1, 2)
    assert found.counted(evalset, 0.5).qrels == {"q": {"b.md": 1}}
    assert found.counted(evalset, 0.49) == evalset


def _verdict(labels: int, absent: int, limit: float = 0.01) -> bool | None:
    found = Labels({}, absent=tuple(f"d{n}" for n in range(absent)), labels=labels, lost=absent)
    evaluation = evaluate(labelled({}), run_of_nothing())
    verdict = decide(GateInput(evaluation, evaluation, labels=found), GatePolicy(max_left_out=limit))
    (criterion,) = [one for one in verdict.criteria if one.name == "labels"]
    assert criterion.value == pytest.approx(absent / labels)
    if criterion.passed is None:
        assert "--max-left-out" in criterion.reason
    return criterion.passed


def run_of_nothing() -> object:
    from evals.runs import RetrievalRun

    return RetrievalRun({})


def test_labels_that_nothing_can_answer_are_left_out_up_to_a_stated_share() -> None:
    assert _verdict(1837, 1) is True
    assert _verdict(100, 1) is True
    assert _verdict(99, 1) is None
    assert _verdict(10, 1, limit=0.2) is True
    assert _verdict(10, 1, limit=0.0) is None


@pytest.mark.slow  # builds two profiles
@pytest.mark.parametrize("kind", ["empty", "absent"])
def test_one_document_without_text_does_not_keep_a_gate_from_deciding(
    database: Database, tmp_path: Path, kind: str
) -> None:
    documents = {f"{name}.{part}": text for name, text in texts().items() for part in range(3)}
    folder = write_collection(tmp_path / "set", {f"q{n}": {f"d{n}.{p}": 1 for p in range(3)} for n in range(40)})
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\n"
        + "".join(f"q{n}\td{n}.{part}\t1\n" for n in range(40) for part in range(3))
        + "q0\tlost\t1\n"
    )
    write_corpus(folder, documents | ({"lost": " "} if kind == "empty" else {}))
    labelled_bot(database, "acme", folder)
    done = judge(database, "acme", "b", FINE, mode="dense", policy=GatePolicy(max_p95_ratio=None))
    assert done.verdict.outcome == "passed", done.verdict.reasons
    (criterion,) = [one for one in done.verdict.criteria if one.name == "labels"]
    assert "lost: 1 of 121 labels (0.83%), left out" in criterion.reason
    assert done.labels.without_document == ("lost",)
    assert done.labels.as_dict()["judged_share"] == pytest.approx(120 / 121)
    assert done.candidate.evaluation.means["recall@5"] > 0.9
