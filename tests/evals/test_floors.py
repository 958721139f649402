"""A floor is chosen on one half of the questions and says on the other what it is worth; scopes carry it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from evals.datasets import EvalSet, Query
from evals.floors import KEEP, chosen, find_floors, read_questions, shares_of, unanswerable_of
from rag_assets.errors import UsageError
from rag_assets.retrieval import HybridRetriever, LadderRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from rag_assets.store.floors import floors_of, reset_floors, set_floor
from rag_assets.store.profiles import built_profile
from rag_assets.store.weights import reset_tuned_weight, set_tuned_weight
from tests.support.worlds import HASH_PROFILE, ingested

SUBJECTS = ["pump", "valve", "hose", "filter", "gasket", "motor", "sensor", "tank", "lever", "nozzle", "crane", "drill"]
PLACES = ["cellar", "attic", "yard", "tower", "harbour"]
PAIRS = [(subject, place) for subject in SUBJECTS for place in PLACES]
FILES = {f"{s}-{p}.md": f"The {s} of the {p} is checked by its keeper each morning." for s, p in PAIRS}
ANSWERABLE = [f"who checks the {s} of the {p}" for s, p in PAIRS]
ODD = ["qualm", "zephyr", "ochre", "lynx", "fjord", "gnome", "sphinx", "myrrh", "vortex", "waltz", "nymph", "quartz"]
UNKNOWN = [f"why does {one} {other} {third}" for one in ODD for other in ODD[:3] for third in ODD[5:7]]
EVALSET = EvalSet(
    tuple(Query(f"q{n}", text) for n, text in enumerate(ANSWERABLE)),
    {f"q{n}": {f"{s}-{p}.md": 1} for n, (s, p) in enumerate(PAIRS)},
)


@pytest.mark.parametrize("seed", range(20))
def test_the_floor_keeps_what_it_must_and_is_the_best_that_does(seed: int) -> None:
    rng = random.Random(seed)
    known = sorted(round(rng.gauss(0.6, 0.2), 2) for _ in range(rng.randrange(1, 60)))
    unknown = sorted(round(rng.gauss(0.3, 0.2), 2) for _ in range(rng.randrange(1, 60)))
    floor = chosen(known, unknown, KEEP)
    mine = shares_of(floor, known, unknown)
    assert mine.kept >= KEEP * len(known)
    assert mine.kept == sum(score >= floor for score in known)
    assert mine.refused == sum(score < floor for score in unknown)
    for other in (n / 200 for n in range(-200, 300)):
        one = shares_of(other, known, unknown)
        if one.kept >= KEEP * len(known):
            assert one.kept / len(known) + one.refused / len(unknown) <= (
                mine.kept / len(known) + mine.refused / len(unknown) + 1e-9
            )
    assert 0 <= mine.p_value <= 1


def test_a_floor_that_tells_nothing_apart_is_not_proven() -> None:
    from evals.floors import Shares

    assert Shares(kept=20, answerable=20, refused=20, unanswerable=20).p_value < 1e-9
    assert Shares(kept=10, answerable=20, refused=10, unanswerable=20).p_value > 0.3
    assert Shares(kept=20, answerable=20, refused=0, unanswerable=20).p_value == 1.0
    scipy = pytest.importorskip("scipy.stats")
    for kept, refused in ((18, 5), (30, 0), (25, 12), (29, 3)):
        one = Shares(kept, 30, refused, 14)
        table = [[refused, 14 - refused], [30 - kept, kept]]
        assert one.p_value == pytest.approx(scipy.fisher_exact(table, alternative="greater").pvalue)


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Database:
    ingested(database, tmp_path / "acme", "acme", FILES)
    return database


def test_a_floor_that_is_stored_refuses_what_nobody_can_answer(world: Database) -> None:
    found = {one.mode: one for one in find_floors(world, "acme", "support", HASH_PROFILE.name, EVALSET, UNKNOWN)}
    assert set(found) == {"dense", "lexical", "hybrid"}
    best = found["hybrid"]
    assert best.is_proven, best.conclusion
    assert best.held_out.kept >= 0.8 * best.held_out.answerable
    assert best.held_out.refused >= 0.8 * best.held_out.unanswerable
    with world.work("acme", "support") as connection:
        built = built_profile(connection, "acme", "support", HASH_PROFILE.name)
        for one in found.values():
            set_floor(connection, built, one.mode, one.floor, one.dense_weight, one.evidence(EVALSET))
        stored = floors_of(connection, built)
    assert [(one.mode, one.floor) for one in stored] == sorted((one.mode, one.floor) for one in found.values())
    assert stored[0].evidence["labelled_set"] == EVALSET.content_hash
    scope = open_scope(world, "acme", "support")
    assert scope.floors == {mode: one.floor for mode, one in found.items()}
    ladder = LadderRetriever(HybridRetriever(world))
    rungs = [[ladder.search(text, scope).rung for text in texts] for texts in (ANSWERABLE, UNKNOWN)]
    assert rungs[0].count("full") >= 0.8 * len(ANSWERABLE)
    assert rungs[1].count("no_reliable_source") >= 0.8 * len(UNKNOWN)


def test_a_floor_of_hybrid_search_goes_with_its_weight_and_with_its_profile(world: Database) -> None:
    def floors() -> dict[str, float]:
        return dict(open_scope(world, "acme", "support").floors)

    with world.work("acme", "support") as connection:
        built = built_profile(connection, "acme", "support", HASH_PROFILE.name)
        set_floor(connection, built, "hybrid", 0.4, None, {})
        set_floor(connection, built, "lexical", 0.2, None, {})
    assert floors() == {"hybrid": 0.4, "lexical": 0.2}
    with world.work("acme", "support") as connection:
        set_tuned_weight(connection, built, 0.3, {})
    assert floors() == {"lexical": 0.2}
    with world.work("acme", "support") as connection:
        set_floor(connection, built, "hybrid", 0.1, 0.3, {})
    assert floors() == {"hybrid": 0.1, "lexical": 0.2}
    with world.work("acme", "support") as connection:
        reset_tuned_weight(connection, built)
    assert floors() == {"lexical": 0.2}
    report = erase(world, "acme")
    assert report.counts["floors"] == 2
    assert not any(report.remaining.values())


def test_floors_can_be_forgotten_and_are_nobody_elses(world: Database, tmp_path: Path) -> None:
    ingested(world, tmp_path / "globex", "globex", {"a.md": "A pump."})
    with world.work("acme", "support") as connection:
        built = built_profile(connection, "acme", "support", HASH_PROFILE.name)
        set_floor(connection, built, "dense", 0.4, None, {})
    assert open_scope(world, "globex", "support").floors == {}
    with world.work("acme", "support") as connection:
        assert reset_floors(connection, built) == 1
    assert open_scope(world, "acme", "support").floors == {}


def test_halves_without_questions_are_refused(world: Database) -> None:
    for texts in ([], ["only one"]):
        with pytest.raises(UsageError, match="halves"):
            find_floors(world, "acme", "support", HASH_PROFILE.name, EVALSET, texts)


def test_questions_come_from_lines_json_lines_and_the_labelled_set(tmp_path: Path) -> None:
    lines, rows = tmp_path / "q.txt", tmp_path / "q.jsonl"
    lines.write_text("Who?\n\n  Why? \nWho?\n")
    rows.write_text('{"text": "Who?"}\n{"query": "Why?", "_id": "2"}\n')
    assert read_questions(lines) == read_questions(rows) == ["Who?", "Why?"]
    queries: list[Any] = [Query("1", "Who?", kind="unanswerable"), Query("2", "What?")]
    assert unanswerable_of(EvalSet(tuple(queries), {})) == ["Who?"]
