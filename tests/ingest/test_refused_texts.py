"""A text that a provider does not embed is asked for once: others are served, and no later ingest sends it again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rag_assets.embedding.profiles import BUILTIN_PROFILES, EmbeddingProfile, make_profile
from rag_assets.embedding.refused import PROBE
from rag_assets.errors import EmbeddingError, ProviderRefused
from rag_assets.ingest.refused import describe, without_quotations
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.store.database import Database
from rag_assets.store.profiles import built_profiles
from rag_assets.store.refused import forget_refused_texts
from rag_assets.store.source_life import source_life
from rag_assets.store.sources import profile_lag, sources_overview
from tests.support.embed_world import fresh_embedders, rows, served, statuses
from tests.support.openai_server import Behaviour, OpenAIServer, Reply, error, openai_server, right

TENANT, BOT = "acme", "support"


@dataclass
class World:
    """A folder, a profile, and a server that minds some texts."""

    database: Database
    root: Path
    server: OpenAIServer
    profile: EmbeddingProfile
    minded: Callable[[Reply], bool] = lambda reply: False
    with_text: Behaviour = field(default=right)

    def write(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.root / f"{name}.txt").write_text(text)

    def minds(self, word: str, by: Behaviour) -> None:
        """From now on requests with this word are answered so."""

        def behave(reply: Reply) -> None:
            (by if any(word in text for text in reply.arrived.texts) else right)(reply)

        self.server.script.clear()
        self.server.script.extend([behave] * 1000)

    def ingest(self, profile: EmbeddingProfile | None = None) -> tuple[IngestReport, int]:
        """An ingest, and how many requests it sent."""
        before = len(self.server.arrived)
        report = ingest(self.database, TENANT, BOT, profile or self.profile, [self.root])
        return report, len(self.server.arrived) - before

    def served(self) -> list[str]:
        return served(self.database.url)[0]

    def lag(self) -> int:
        """Sources that a run is asked for."""
        with self.database.work(TENANT) as connection:
            return sum(profile_lag(connection, built.id).sources for built in built_profiles(connection, TENANT))

    def next_tries(self) -> list[tuple[Any, ...]]:
        """Sources that are tried again by themselves, and whether the texts have the same moment."""
        return rows(
            self.database.url,
            "SELECT name, p.next_try_at = (SELECT max(next_try_at) FROM rag.refused_texts) FROM rag.source_profiles p "
            "JOIN rag.knowledge_sources s ON s.id = p.source_id WHERE p.next_try_at IS NOT NULL",
        )

    def let_time_pass(self) -> None:
        for table in ("source_profiles", "refused_texts"):
            rows(
                self.database.url,
                f"UPDATE rag.{table} SET next_try_at = now() WHERE next_try_at IS NOT NULL RETURNING 1",
            )

    def remembered(self) -> list[tuple[Any, ...]]:
        return rows(self.database.url, "SELECT reason, next_try_at IS NULL FROM rag.refused_texts")


@pytest.fixture
def world(database: Database, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with openai_server() as server, fresh_embedders(monkeypatch):
        options = {"base_url": server.url}
        profile = make_profile(name="o", provider="openai-compatible", model="plain", dimensions=16, options=options)
        yield World(database, root, server, profile)


def one_for(word: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Behaviour:
    """Entries of texts with this word are changed, or left out."""

    def behave(reply: Reply) -> None:
        entries = [
            change(entry) if word in text else entry
            for entry, text in zip(reply.entries(), reply.arrived.texts, strict=True)
        ]
        reply.send({"data": [entry for entry in entries if entry is not None]})

    return behave


def test_nine_texts_that_are_refused_do_not_keep_a_good_one_from_being_served(world: World) -> None:
    world.minds("bad", error(400))
    world.write(**{f"f{number}": f"A bad text, number {number}." for number in range(9)})
    first, asked = world.ingest()
    assert len(first.embeddings.failures) == 9
    assert asked <= 2 * 9 - 1 + 2, "each alone, what holds them, and a word to see whether anything is embedded"
    assert world.server.sent[PROBE] >= 1
    world.write(good="A good text.")
    second, asked = world.ingest()
    assert (asked, world.served()) == (1, ["A good text."])
    assert world.server.arrived[-1].texts == ["A good text."]
    third, asked = world.ingest()
    assert (asked, statuses(world.database.url)) == (0, {"failed": 9, "ready": 1})
    assert len(second.embeddings.failures) == len(third.embeddings.failures) == 9
    assert [lasting for _, lasting in world.remembered()] == [True] * 9


BAD_ANSWERS: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    "null": lambda entry: {**entry, "embedding": None},
    "an empty list": lambda entry: {**entry, "embedding": []},
    "another dimension": lambda entry: {**entry, "embedding": [1.0] * 8},
    "NaN": lambda entry: {**entry, "embedding": [float("nan")] * 16},
    "zeros": lambda entry: {**entry, "embedding": [0.0] * 16},
    "no index": lambda entry: {"embedding": entry["embedding"], "index": "none"},
    "no entry": lambda entry: None,
}


@pytest.mark.parametrize("change", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_a_text_without_a_vector_fails_alone_by_name_and_waits_for_its_next_try(
    world: World, change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> None:
    world.minds("odd", one_for("odd", change))
    world.write(odd="An odd text.", **{f"f{number}": f"Good text {number}." for number in range(5)})
    first, asked = world.ingest()
    assert world.served() == [f"Good text {number}." for number in range(5)]
    (failure,) = first.embeddings.failures
    assert failure.name == "odd.txt"
    assert "which begins “An odd text.”" in failure.error
    assert asked <= 1 + 1 + 2 * 3, "six, a word, and halves"
    world.write(new="A new text.")
    _, asked = world.ingest()
    assert (asked, world.served()[0]) == (1, "A new text.")
    _, asked = world.ingest()
    assert (asked, [lasting for _, lasting in world.remembered()]) == (0, [False])


def test_what_had_no_vector_is_tried_again_after_pauses_that_grow(world: World) -> None:
    world.minds("odd", one_for("odd", BAD_ANSWERS["null"]))
    world.write(odd="An odd text.", good="A good text.")
    pauses = []
    for _ in range(3):
        assert world.ingest()[1] > 0
        ((pause,),) = rows(world.database.url, "SELECT next_try_at - refused_at FROM rag.refused_texts")
        pauses.append(round(pause.total_seconds() / 3600))
        rows(world.database.url, "UPDATE rag.refused_texts SET next_try_at = now() RETURNING 1")
    assert pauses == [1, 4, 16]
    world.server.script.clear()
    world.ingest()
    assert world.served() == ["A good text.", "An odd text."]


def test_a_text_that_changes_or_another_profile_or_the_wish_of_somebody_sends_it_again(world: World) -> None:
    world.minds("bad", error(400))
    world.write(a="A bad text.", b="A good text.")
    world.ingest()
    assert world.ingest()[1] == 0
    other = world.profile.model_copy(update={"name": "other", "model": "plainer"})
    assert world.ingest(other)[1] > 0
    assert forget_refused_texts(world.database, TENANT) == 2
    assert world.ingest()[1] > 0
    world.write(a="A better text.")
    world.ingest()
    assert world.served().count("A better text.") == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_provider_that_refuses_everything_blames_no_text(world: World, status: int) -> None:
    world.server.script.extend([error(status)] * 100)
    world.write(**{f"f{number}": f"Text {number}." for number in range(12)})
    with pytest.raises(ProviderRefused):
        world.ingest()
    assert len(world.server.arrived) < 25
    assert (world.remembered(), statuses(world.database.url)) == ([], {"processing": 12})
    world.server.script.clear()
    world.ingest()
    assert statuses(world.database.url) == {"ready": 12}


def test_a_provider_whose_vectors_are_all_wrong_blames_no_text(world: World) -> None:
    world.server.script.extend([one_for("", BAD_ANSWERS["null"])] * 100)
    world.write(a="Text one.", b="Text two.")
    with pytest.raises(EmbeddingError):
        world.ingest()
    assert (len(world.server.arrived), world.remembered()) == (2, [])


def test_who_is_refused_is_told_which_chunk_it_is(world: World) -> None:
    world.minds("unspeakable", error(400))
    sections = "\n\n".join(f"## Part {number}\n\n{'Words that fill the part. ' * 60}" for number in range(3))
    danger = f"## Danger\n\nThe unspeakable valve is {'x ' * 80}"
    (world.root / "manual.md").write_text(f"# Pumps\n\n{sections}\n\n{danger}\n")
    report, _ = world.ingest()
    (failure,) = report.embeddings.failures
    assert re.search(r"\(chunk [4-9], under .*Danger", failure.error)
    assert "unspeakable valve" in failure.error
    ((stored,),) = rows(world.database.url, "SELECT error_message FROM rag.knowledge_sources WHERE status = 'failed'")
    assert stored == failure.error
    assert len(stored) < 400
    unquoted = without_quotations(failure.error)
    assert "HTTP 400" in unquoted
    assert not re.search("Danger|valve", unquoted)


def test_no_text_can_break_out_of_its_quotation() -> None:
    row = {"chunk_index": 0, "citation": json.dumps({"heading": "a” secret"}), "content": "one ” secret “ secret ”"}
    assert "secret" not in without_quotations(describe([row], "HTTP 400"))


def test_a_record_of_many_is_named(world: World) -> None:
    world.minds("bad", error(400))
    records = [{"_id": str(number), "text": f"Text {number}."} for number in range(5)] + [{"_id": "b", "text": "bad."}]
    (world.root / "corpus.jsonl").write_text("\n".join(map(json.dumps, records)))
    report, _ = world.ingest()
    assert [failure.name for failure in report.embeddings.failures] == ["b"]
    assert len(world.served()) == 5


@pytest.mark.parametrize(("texts", "asked"), [(40, [[PROBE]]), (3, None)], ids=["many", "few"])
def test_a_dimension_that_the_model_does_not_have_is_found_by_one_word_and_said_everywhere(
    world: World, texts: int, asked: list[list[str]] | None
) -> None:
    wrong = world.profile.model_copy(update={"name": "wrong", "dimensions": 24})
    world.write(**{f"f{number}": f"Text {number}." for number in range(texts)})
    with pytest.raises(EmbeddingError, match=r"expected 24 dimensions, .* returned 16") as caught:
        world.ingest(wrong)
    assert len(world.server.arrived) <= 2
    if asked is not None:
        assert [arrived.texts for arrived in world.server.arrived] == asked, "paid for more than a word"
    with world.database.work(TENANT) as connection:
        (built,) = built_profiles(connection, TENANT)
        errors = {source["error"] for source in sources_overview(connection, TENANT, BOT)}
    assert built.last_error == str(caught.value)
    assert errors == {f"profile wrong: {caught.value}"}
    world.ingest()
    with world.database.work(TENANT) as connection:
        assert {source["status"] for source in sources_overview(connection, TENANT, BOT)} == {"ready"}


def test_what_kept_a_run_from_embedding_is_forgotten_when_one_succeeds(world: World) -> None:
    world.write(a="A text.")
    world.server.script.append(error(401))
    with pytest.raises(ProviderRefused):
        world.ingest()
    with world.database.work(TENANT) as connection:
        assert "wants a key" in str(sources_overview(connection, TENANT, BOT)[0]["error"])
    world.ingest()
    with world.database.work(TENANT) as connection:
        assert [built.last_error for built in built_profiles(connection, TENANT)] == [None]
        assert sources_overview(connection, TENANT, BOT)[0]["error"] is None


def test_a_text_that_the_server_breaks_down_at_fails_alone_and_a_run_is_asked_for_when_its_time_has_come(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_PROVIDER_WAIT_S", "0.3")
    world.minds("deadly", error(500))
    world.write(a="A good text.", b="A deadly text.", c="Another good text.")
    report, _ = world.ingest()
    assert world.served() == ["A good text.", "Another good text."]
    (failure,) = report.embeddings.failures
    assert re.search(
        r"gave no answer in 1 try: HTTP 500.*, though others are embedded .*begins “A deadly text.”", failure.error
    )
    assert world.remembered() == [(failure.error[len("cannot be embedded: ") :].partition(" (chunk")[0], False)]
    assert world.ingest()[1] == 0, "it waits"
    assert (world.lag(), world.next_tries()) == (0, [("b.txt", True)])
    with world.database.work(TENANT) as connection:
        (source,) = [one for one in sources_overview(connection, TENANT, BOT) if one["name"] == "b.txt"]
        assert "is sent again by the first run after o: 2" in source_life(connection, source["source_id"])["next_try"]
    world.let_time_pass()
    assert world.lag() == 1
    assert world.ingest()[1] > 0
    assert (world.lag(), world.next_tries()) == (0, [("b.txt", True)]), "it waits longer"
    world.server.script.clear()
    world.let_time_pass()
    world.ingest()
    assert world.served() == ["A deadly text.", "A good text.", "Another good text."]
    assert (world.lag(), world.next_tries()) == (0, [])


def test_a_text_that_is_refused_for_good_asks_for_no_run(world: World) -> None:
    world.minds("bad", error(400))
    world.write(a="A good text.", b="A bad text.")
    world.ingest()
    world.let_time_pass()
    assert (world.lag(), world.next_tries()) == (0, [])


def test_a_served_version_stays_while_the_next_one_has_no_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PROVIDER_WAIT_S", "0.3")
    world.write(a="A good text.", b="The other text.")
    world.ingest()
    world.minds("deadly", error(503))
    world.write(b="The deadly text.")
    world.ingest()
    assert world.served() == ["A good text.", "The other text."]
    world.let_time_pass()
    assert world.lag() == 1
    world.server.script.clear()
    world.ingest()
    assert (world.served(), world.lag()) == (["A good text.", "The deadly text."], 0)


def test_nothing_is_looked_up_for_a_model_that_refuses_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_up(*_: object) -> None:
        pytest.fail("the look takes longer than the model")

    monkeypatch.setattr("rag_assets.store.refused.rows", looked_up)
    world.write(a="A good text.")
    world.ingest(BUILTIN_PROFILES["static-64"])
    assert world.served() == ["A good text."]
