"""Measure, judge, promote and roll back, as CI and a person do it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID
from xml.etree import ElementTree

import pytest

from evals.runner import run_queries, stored_set
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import open_scope
from rag_assets.retrieval.scope import in_canary
from rag_assets.settings import Settings
from rag_assets.store.database import Database
from tests.support.command_line import WATCHED, Rag
from tests.support.labelled_world import (
    COARSE,
    DOCUMENTS,
    FINE,
    add_document,
    add_profiles,
    labelled_bot,
    write_collection,
)

GATE = ("--candidate", FINE, "--mode", "dense", "--max-p95-ratio", "1000")
HEADLINE = {"recall@5", "hit_rate@5", "mrr@10", "ndcg@10", "precision@5", "p50_ms", "p95_ms"}


class Bot:
    """A bot of its own with the labelled collection; `coarse` is active, `fine` is the candidate."""

    def __init__(self, database: Database, tenant: str, folder: Path) -> None:
        self.database, self.tenant, self.folder = database, tenant, folder
        self.words = ("--tenant", tenant, "--bot", "b")
        labelled_bot(database, tenant, folder)

    def label(self, labels: dict[str, dict[str, int]], critical: tuple[str, ...] = ()) -> None:
        """Import the collection with other labels."""
        from evals.runner import import_set

        write_collection(self.folder, labels, critical)
        import_set(self.database, self.tenant, "b", self.folder)

    def add_document(self, *profiles: str) -> None:
        """One more document, ingested with these profiles only."""
        add_document(self.folder)
        for profile in profiles:
            ingest(self.database, self.tenant, "b", profile)

    def serves(self, key: str | None = None) -> str:
        return open_scope(self.database, self.tenant, "b", request_key=key).profile.name


@pytest.fixture
def bot(environment: None, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bot]:
    from rag_assets.commands.session import ready_database

    with ready_database() as database:
        tenant = f"e{abs(hash(request.node.nodeid)) % 10**12}"
        yield Bot(database, tenant, write_collection(tmp_path / "labelled", critical=("q3",)))


@pytest.fixture(scope="module")
def shared(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bot]:
    """A bot for tests that leave its sources, labels and pointers as they are."""
    from rag_assets.commands.session import ready_database

    with ready_database(Settings(home=home, database_url=None)) as database:
        yield Bot(database, "shared", write_collection(tmp_path_factory.mktemp("labelled"), critical=("q3",)))


def refused(rag: Rag, bot: Bot, *words: str, code: int = 1) -> dict[str, str]:
    """Reasons by criterion of a gate that does not pass; the same in JSON and for a person."""
    found = rag.json("eval", "gate", *bot.words, *GATE, *words, code=code)
    assert found["outcome"] == {1: "refused", 2: "undecided"}[code]
    assert found["exit_code"] == code
    shown = rag("eval", "gate", *bot.words, *GATE, *words, code=code).stdout
    assert f"against {COARSE}: {found['outcome']}" in shown
    return {one["name"]: one["reason"] for one in found["criteria"] if one["passed"] is not True}


def test_a_run_is_measured_in_the_usual_numbers(rag: Rag, shared: Bot) -> None:
    found = rag.json("eval", "run", *shared.words, "--profile", FINE, "--mode", "dense")
    assert HEADLINE | {"queries", "profile", "mode", "metrics", "problems"} <= set(found)
    assert (found["queries"], found["profile"], found["mode"]) == (DOCUMENTS, FINE, "dense")
    assert found["problems"] == []
    assert {"recall@1", "capped_recall@5", "hit_rate@10", "embed_p95_ms", "search_p50_ms"} <= set(found["metrics"])
    assert found["recall@5"] == found["hit_rate@5"] > 0.9
    shown = rag("eval", "run", *shared.words, "--profile", FINE).stdout
    assert "recall@5" in shown
    assert FINE in shown


def test_other_labels_may_be_measured_with_and_stay_apart(rag: Rag, shared: Bot, tmp_path: Path) -> None:
    (tmp_path / "few.tsv").write_text("q1\td1\t1\nq2\td2\t1\nnobody\td2\t1\n")
    words = ("eval", "run", *shared.words, "--profile", FINE)
    found = rag.json(*words, "--qrels", str(tmp_path / "few.tsv"))
    assert found["queries"] == 2
    assert "few.tsv:3: label of the unknown query nobody" in found["problems"][0]
    assert rag.json(*words)["queries"] == DOCUMENTS


def test_a_proven_candidate_passes_is_promoted_and_rolled_back(rag: Rag, bot: Bot, tmp_path: Path) -> None:
    files = ("--junit", str(tmp_path / "ci" / "gate.xml"), "--markdown", str(tmp_path / "ci" / "gate.md"))
    found = rag.json("eval", "gate", *bot.words, *GATE, *files)
    assert (found["outcome"], found["candidate"], found["baseline"]) == ("passed", FINE, COARSE)
    assert isinstance(found["verdict"], int)
    assert all(one["passed"] and one["reason"] for one in found["criteria"])
    suite = ElementTree.parse(tmp_path / "ci" / "gate.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == (str(len(suite)), "0", "0")
    assert "**Verdict: passed**" in (tmp_path / "ci" / "gate.md").read_text()

    moved = rag.json("promote", FINE, *bot.words)
    assert (moved["active"], moved["previous"], moved["forced"]) == (FINE, COARSE, False)
    assert bot.serves() == FINE
    assert "active already" in rag.error("promote", FINE, *bot.words)[1]
    back = rag.json("rollback", *bot.words, "--reason", "complaints")
    assert (back["active"], back["previous"]) == (COARSE, FINE)
    assert bot.serves() == COARSE
    events = rag.json("events", *bot.words)["events"]
    assert [event["event"] for event in events[:2]] == ["rolled_back", "promoted"]
    assert events[0]["evidence"] == {"from": FINE, "reason": "complaints"}
    assert events[1]["evidence"]["verdict"] == found["verdict"]
    assert "rolled_back" in rag("events", *bot.words).stdout


def test_a_candidate_that_lacks_a_source_is_refused(rag: Rag, bot: Bot) -> None:
    bot.add_document(COARSE)
    reasons = refused(rag, bot)
    assert list(reasons) == ["coverage"]
    assert reasons["coverage"].startswith(f"the candidate lacks 1 of {DOCUMENTS + 1} ready sources: late")


def test_a_candidate_that_gets_one_critical_query_wrong_is_refused(rag: Rag, bot: Bot) -> None:
    evalset = stored_set(bot.database, bot.tenant, "b").evalset
    runs = [run_queries(bot.database, bot.tenant, "b", name, evalset, "dense") for name in (COARSE, FINE)]
    query, document = next(
        (query, found)
        for query in evalset.judged
        for found in runs[0].top(query, 5)
        if found not in runs[1].top(query, 5)
    )
    bot.label({query: {document: 1}}, critical=(query,))
    reasons = refused(rag, bot)
    assert reasons == {"critical_queries": f"1 of 1 critical query got worse: {query}"}
    assert f"1 of 1 critical query got worse: {query}" in rag.error("promote", FINE, *bot.words, code=1)[1]


def test_a_worse_candidate_is_refused_with_its_numbers(rag: Rag, shared: Bot) -> None:
    found = rag.json("eval", "gate", *shared.words, *GATE, "--candidate", COARSE, "--baseline", FINE, code=1)
    failed = {one["name"] for one in found["criteria"] if one["passed"] is False}
    assert {"recall_gain", "significance"} <= failed


def test_the_same_profile_is_no_gain_and_is_not_inferior(rag: Rag, shared: Bot) -> None:
    words = ("eval", "gate", *shared.words, *GATE, "--baseline", FINE)
    found = rag.json(*words, code=1)
    (gain,) = [one for one in found["criteria"] if one["name"] == "recall_gain"]
    assert "cannot be an improvement on itself" in gain["reason"]
    assert rag.json(*words, "--non-inferior", "0.01")["outcome"] == "passed"


def test_too_few_queries_decide_nothing(rag: Rag, bot: Bot) -> None:
    reasons = refused(rag, bot, "--min-queries", "41", code=2)
    assert reasons["judged_queries"] == f"{DOCUMENTS} judged queries, at least 41 are needed"
    assert "undecided" in rag.error("promote", FINE, *bot.words, code=1)[1]


def test_labels_of_unknown_documents_decide_nothing(rag: Rag, bot: Bot, tmp_path: Path) -> None:
    bot.label({"q5": {"nowhere": 1}})
    reasons = refused(rag, bot, "--junit", str(tmp_path / "gate.xml"), code=2)
    assert reasons["labels"].startswith(
        f"1 labelled document is in no source: nowhere: 1 of {DOCUMENTS} labels (2.50%)"
    )
    assert "--max-left-out" in reasons["labels"]
    assert 'errors="' in (tmp_path / "gate.xml").read_text()
    run = rag.json("eval", "run", *bot.words, "--profile", FINE)
    assert run["problems"] == ["1 labelled document is in no source: nowhere"]
    assert (run["labels"]["absent"], run["labels"]["judged_share"]) == (["nowhere"], 1 - 1 / DOCUMENTS)
    judged = rag.json("eval", "gate", *bot.words, *GATE, "--max-left-out", "0.05")
    assert (judged["outcome"], judged["labels"]["absent"]) == ("passed", ["nowhere"])


def test_a_latency_budget_is_a_criterion(rag: Rag, shared: Bot) -> None:
    reasons = refused(rag, shared, "--max-p95-ms", "0.001")
    assert "at most 0.0 ms is allowed" in reasons["latency"]


def test_what_cannot_be_measured_is_no_refusal(rag: Rag, bot: Bot, tmp_path: Path) -> None:
    with bot.database.work(bot.tenant) as connection:
        connection.execute("UPDATE rag.knowledge_spaces SET active_profile_id = NULL")
    found = rag.json("eval", "gate", *bot.words, *GATE, "--junit", str(tmp_path / "gate.xml"), code=2)
    assert found["outcome"] == "undecided"
    assert found["error"]["type"] == "ProfileNotReady"
    assert 'errors="1"' in (tmp_path / "gate.xml").read_text()
    assert "could not be judged" in rag("eval", "gate", *bot.words, *GATE, code=2).stderr


def test_a_promotion_needs_a_verdict_and_one_that_still_holds(rag: Rag, bot: Bot) -> None:
    kind, message = rag.error("promote", FINE, *bot.words, code=1)
    assert kind == "PromotionRefused"
    assert f"has no verdict. Ask for one: rag eval gate --tenant {bot.tenant}" in message
    rag.json("eval", "gate", *bot.words, *GATE)
    bot.add_document(COARSE, FINE)
    kind, message = rag.error("promote", FINE, *bot.words, code=1)
    assert kind == "PromotionRefused"
    assert "the sources have changed since the verdict" in message
    assert bot.serves() == COARSE
    rag.json("eval", "gate", *bot.words, *GATE)
    assert rag.json("promote", FINE, *bot.words)["active"] == FINE


def test_force_needs_a_reason_and_is_recorded_as_such(rag: Rag, bot: Bot) -> None:
    for words in (("--force",), ("--force", "--reason", "  "), ("--reason", "without force")):
        kind, message = rag.error("promote", FINE, *bot.words, *words)
        assert kind == "UsageError"
        assert "--force" in message
    assert bot.serves() == COARSE
    assert rag.json("promote", FINE, *bot.words, "--force", "--reason", "an outage")["forced"] is True
    event = rag.json("events", *bot.words, "--limit", "1")["events"][0]
    assert (event["event"], event["evidence"]["reason"]) == ("forced", "an outage")


def test_a_canary_answers_its_share_of_keys_and_each_key_stays(rag: Rag, bot: Bot) -> None:
    assert rag.json("canary", FINE, *bot.words, "--percent", "30")["canary"] == FINE
    keys = [f"user-{n}" for n in range(40)]
    served = {key: bot.serves(key) for key in keys}
    assert set(served.values()) == {COARSE, FINE}
    assert {key: bot.serves(key) for key in keys} == served
    assert bot.serves() == COARSE
    assert open_scope(bot.database, bot.tenant, "b", COARSE, request_key="user-1").profile.name == COARSE
    key = next(key for key, name in served.items() if name == FINE)
    assert rag.json("search", "anything", *bot.words, "--request-key", key)["profile"] == FINE

    rag.json("canary", *bot.words, "--percent", "100")
    assert {bot.serves(key) for key in keys} == {FINE}
    rag.json("canary", *bot.words, "--percent", "0")
    assert {bot.serves(key) for key in keys} == {COARSE}
    assert "no canary so far" in rag.error("canary", *bot.words, "--percent", "5")[1]
    assert "is active" in rag.error("canary", COARSE, *bot.words, "--percent", "5")[1]


@pytest.mark.parametrize("percent", [0, 1, 10, 50, 100])
def test_the_share_of_a_canary_is_about_what_was_asked_for(percent: int) -> None:
    space = UUID(int=7)
    share = sum(in_canary(space, f"user-{n}", percent) for n in range(10_000)) / 100
    assert share == pytest.approx(percent, abs=1.5)
    wider = {n for n in range(1000) if in_canary(space, str(n), percent)}
    assert wider <= {n for n in range(1000) if in_canary(space, str(n), min(100, percent + 20))}


@pytest.mark.slow
def test_a_sweep_measures_all_profiles_in_all_modes(rag: Rag, shared: Bot) -> None:
    found = rag.json("eval", "sweep", *shared.words)
    pairs = [(run["profile"], run["mode"]) for run in found["runs"]]
    assert pairs == [(profile, mode) for profile in (COARSE, FINE) for mode in ("dense", "lexical", "hybrid")]
    assert all(set(run) >= HEADLINE for run in found["runs"])
    shown = rag("eval", "sweep", *shared.words, "--profile", FINE, "--mode", "lexical").stdout
    assert "lexical" in shown
    assert "hybrid" not in shown


def test_tuning_reports_the_half_that_it_did_not_tune_on(rag: Rag, shared: Bot) -> None:
    found = rag.json("eval", "tune", *shared.words, "--profile", COARSE)
    assert [row["weight"] for row in found["tuning"]] == [n / 10 for n in range(11)]
    tuned, held_out = found["tuning"][0]["queries"], found["held_out"]["tuned"]["queries"]
    assert tuned + held_out == DOCUMENTS
    assert found["held_out"]["tuned"]["weight"] == found["weight"]


@pytest.mark.slow
def test_a_report_is_written_beside_a_baseline_or_alone(rag: Rag, shared: Bot, tmp_path: Path) -> None:
    out = tmp_path / "reports" / "fine.md"
    words = ("eval", "report", *shared.words, "--candidate", FINE, "--mode", "dense", "--out", str(out))
    assert rag.json(*words, "--baseline", COARSE)["file"] == str(out)
    assert "## Queries won" in out.read_text()
    rag.json(*words)
    assert "## Queries won" not in out.read_text()


def test_profiles_are_compared_part_by_part(rag: Rag, shared: Bot) -> None:
    found = rag.json("profile", "diff", COARSE, FINE)
    assert found["differences"] == {"dimensions": [8, 256]}
    assert rag.json("profile", "diff", FINE, FINE)["differences"] == {}
    assert "dimensions" in rag("profile", "diff", COARSE, FINE).stdout


@pytest.mark.parametrize(
    ("words", "kind", "part"),
    [
        (("eval", "gate", "--candidate", FINE, "--min-recall-gain", "0.1", "--non-inferior", "0"), "UsageError", "one"),
        (("eval", "gate", "--candidate", FINE, "--min-queries", "0"), "UsageError", "limits"),
        (("eval", "gate", "--candidate", "nobody"), "UnknownProfile", "rag profile add"),
        (("eval", "gate", "--candidate", "A"), "InvalidKey", "profile"),
        (("eval", "run", "--profile", FINE, "--qrels", "/nowhere.tsv"), "UnknownPath", "nowhere.tsv"),
        (("eval", "run", "--profile", FINE, "--weight", "2"), "UsageError", "--weight"),
        (("eval", "import", "/nowhere"), "UnknownPath", "nowhere"),
        (("canary", FINE, "--percent", "101"), "UsageError", "100"),
        (("promote", "nobody"), "UnknownProfile", "nobody"),
    ],
)
def test_wrong_use_ends_with_2(rag: Rag, shared: Bot, words: tuple[str, ...], kind: str, part: str) -> None:
    found, message = rag.error(*words, *shared.words)
    assert found == kind
    assert part in message


def test_a_bot_without_labels_is_told_how_to_import_some(rag: Rag, filled: str) -> None:
    kind, message = rag.error("eval", "gate", "--tenant", filled, "--bot", "b", "--candidate", "tiny")
    assert kind == "UsageError"
    assert "rag eval import DIR" in message
    assert "no profile to go back to" in rag.error("rollback", "--tenant", filled, "--bot", "b", code=1)[1]


@pytest.mark.slow
def test_an_import_ingests_the_documents_and_keeps_the_labels(rag: Rag, environment: None, tmp_path: Path) -> None:
    from rag_assets.commands.session import ready_database

    with ready_database() as database:
        add_profiles(database)
    folder = write_collection(tmp_path / "labelled", {"q5": {"nowhere": 1}}, critical=("q3", "unheard-of"))
    words = ("eval", "import", str(folder), "--tenant", "imported", "--bot", "b", "--profile", FINE, "--json")
    run = subprocess.run(
        [sys.executable, "-m", "rag_assets.cli", *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert (found["queries"], found["judged"], found["critical"]) == (DOCUMENTS, DOCUMENTS, 1)
    assert found["ingest"]["sources"]["ready"] == DOCUMENTS
    assert any("unheard-of" in problem for problem in found["problems"])
    assert found["problems"][-1] == "1 labelled document is in no source: nowhere"
    measured = rag.json("eval", "run", "--tenant", "imported", "--bot", "b", "--profile", FINE)
    assert measured["queries"] == DOCUMENTS


@pytest.mark.slow
def test_measuring_and_promoting_do_not_load_dagster(bot: Bot) -> None:
    for words in (
        ("eval", "gate", *bot.words, *GATE),
        ("eval", "sweep", *bot.words, "--mode", "lexical"),
        ("promote", FINE, *bot.words),
        ("rollback", *bot.words),
    ):
        run = subprocess.run([sys.executable, "-c", WATCHED, *words], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert run.stderr.splitlines()[-1] == "dagster loaded: False"


def test_a_tuned_weight_is_stored_where_it_is_asked_for_used_shown_and_taken_back(rag: Rag, bot: Bot) -> None:
    words = ("eval", "tune", *bot.words, "--profile", COARSE)
    found = rag.json(*words)
    assert (found["applied"], found["is_proven"]) == (False, found["held_out"]["p_value"] <= 0.05)
    assert found["conclusion"].startswith("use 0" if found["is_proven"] else "keep the default")
    assert rag.json("profile", "show", COARSE)["tuned_weights"] == []
    assert open_scope(bot.database, bot.tenant, "b").dense_weight is None

    applied = rag.json(*words, "--apply", "--force")
    assert applied["applied"] is True
    assert open_scope(bot.database, bot.tenant, "b").dense_weight == applied["weight"]
    (shown,) = rag.json("profile", "show", COARSE)["tuned_weights"]
    assert (shown["tenant"], shown["dense_weight"]) == (bot.tenant, applied["weight"])
    assert shown["evidence"]["labelled_set"] == stored_set(bot.database, bot.tenant, "b").evalset.content_hash
    assert "tuned weight" in rag("profile", "show", COARSE).stdout
    served = rag.json("eval", "run", *bot.words)
    assert served["recall@5"] == rag.json("eval", "run", *bot.words, "--weight", str(applied["weight"]))["recall@5"]

    assert rag.json(*words, "--reset")["reset"] is True
    assert rag.json(*words, "--reset")["reset"] is False
    assert open_scope(bot.database, bot.tenant, "b").dense_weight is None
    assert rag.error(*words, "--reset", "--apply")[0] == "UsageError"
    assert rag.error(*words, "--force")[0] == "UsageError"


def test_an_import_tells_what_to_do_about_unknown_labels_and_too_few_queries(
    rag: Rag, filled: str, tmp_path: Path
) -> None:
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "When does the pump cut in?"}\n')
    (tmp_path / "qrels.tsv").write_text("q\tpump.md\t1\nq\tnowhere.md\t1\n")
    words = ("eval", "import", str(tmp_path), "--tenant", filled, "--bot", "b")
    found = rag.json(*words)
    assert found["problems"] == ["1 labelled document is in no source: nowhere.md"]
    absent, few = found["hints"]
    assert "ingest these documents, or take their labels out" in absent
    assert f"rag sources --tenant {filled} --bot b" in absent
    assert few == (
        "with 1 judged query rag eval gate decides nothing: it needs 30, unless --min-queries says otherwise"
    )
    shown = rag(*words).stdout
    assert "is measured by 1 judged query of 1" in shown
    assert absent in shown
    assert few in shown
