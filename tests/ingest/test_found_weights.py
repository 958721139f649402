"""A bot's hybrid search trusts the list that finds more, as its own passages show: no labels, nothing to set."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from rag_assets.embedding import registry
from rag_assets.embedding.protocol import NOBODY, Caller, Embedded, Usage
from rag_assets.errors import EmbeddingError
from rag_assets.ingest.found_weights import FEWEST
from rag_assets.ingest.run import ingest
from rag_assets.retrieval import HybridRetriever, LexicalRetriever, open_scope
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from rag_assets.store.profiles import built_profile
from rag_assets.store.weights import FoundWeight, found_weight, reset_tuned_weight, set_tuned_weight
from tests.support.worlds import HASH_PROFILE, ingested

TOPICS, SENTENCES, WORDS = 60, 4, 8
MANY = 150  # topics, of which more is to be known than that there is a weight
MORE = 240  # than the 200 vectors that say what unrelated texts score
CODE = "def f{n}(self, x_{n}=[]):\n    return self._a[{n}] + {{x_{n}: (x_{n})}}\n\n# Adds number {n} to it.\n"
Vector = NDArray[np.float32]
Use = Callable[["Model"], "Model"]


def corpus(own_words: int, topics: int = TOPICS) -> dict[str, str]:
    """A file for each topic. So many words of each sentence are of the topic alone, and some come again in its others;
    the rest are anybody's."""
    drawn = random.Random(7)
    syllables = ["ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "zu", "dra", "pel", "gor", "fin"]
    words = list(dict.fromkeys("".join(drawn.choices(syllables, k=3)) for _ in range(6000)))
    common, own = words[:300], words[300:]
    files = {}
    for topic in range(topics):
        mine = own[topic * 12 : topic * 12 + 12]
        sentences = []
        for _ in range(SENTENCES):
            said = drawn.sample(mine, own_words) + drawn.choices(common, k=WORDS - own_words)
            sentences.append(" ".join(drawn.sample(said, WORDS)).capitalize() + ".")
        files[f"{topic:03}.txt"] = " ".join(sentences)
    return files


class Model:
    """An embedder whose vectors are `of` a text; counts what it is asked."""

    instant = True

    def __init__(self) -> None:
        self.model_key, self.dimensions, self.batch_items = HASH_PROFILE.model_key, HASH_PROFILE.dimensions, 100
        self.queries = 0
        self.broken = False

    def of(self, text: str) -> Vector:
        raise NotImplementedError

    def embed_documents(self, texts: Sequence[str], caller: Caller = NOBODY) -> Embedded:
        return Embedded(np.stack([self.of(text) for text in texts]), Usage("", "", len(texts), 0))

    def embed_query(self, text: str, caller: Caller = NOBODY) -> Embedded:
        self.queries += 1
        if self.broken:
            raise EmbeddingError("the model is gone")
        return self.embed_documents([text])


def drawn(seed: int, dimensions: int, mean: float = 0.0) -> Vector:
    vector = mean + np.random.default_rng(seed).normal(size=dimensions)
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


class KnowsTopics(Model):
    """Knows more or less what a text is about, whatever its words."""

    def __init__(self, files: dict[str, str]) -> None:
        super().__init__()
        self._topics = {said.strip(): name for name, text in files.items() for said in text.split(".") if said.strip()}

    def of(self, text: str) -> Vector:
        topics = [self._topics[said.strip()] for said in text.split(".") if said.strip() in self._topics]
        about, more = (drawn(crc32(one.encode()), self.dimensions) for one in (topics[0] if topics else text, text))
        return np.asarray((about + 1.3 * more) / np.linalg.norm(about + 1.3 * more), dtype=np.float32)


class KnowsNothing(Model):
    """A model that does not know the language: its vectors are much alike, and what differs means nothing."""

    def of(self, text: str) -> Vector:
        return drawn(crc32(text.encode()), self.dimensions, mean=0.5)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    def put(model: Model) -> Model:
        monkeypatch.setattr(registry, "_loaded", {registry._asks(HASH_PROFILE): model})
        return model

    return put


def found_of(database: Database, tenant: str) -> FoundWeight:
    with database.work(tenant, "support") as connection:
        found = found_weight(connection, built_profile(connection, tenant, "support", "hash-64"))
    assert found is not None
    return found


def weight_of(database: Database, tenant: str) -> float | None:
    return open_scope(database, tenant, "support").dense_weight


def test_vectors_that_are_noise_count_next_to_nothing(database: Database, tmp_path: Path, use: Use) -> None:
    use(KnowsNothing())
    ingested(database, tmp_path, "acme", corpus(own_words=2, topics=MANY))
    scope = open_scope(database, "acme", "support")
    assert scope.dense_weight is not None
    assert scope.dense_weight <= 0.25
    evidence = found_of(database, "acme").evidence
    assert evidence["queries"] >= FEWEST
    assert evidence["ndcg@10"]["words_alone"] > 2 * evidence["ndcg@10"]["meaning_alone"]
    question = " ".join(corpus(own_words=2, topics=MANY)["042.txt"].split()[:3])
    best, alone = (kind(database).search(question, scope)[0] for kind in (HybridRetriever, LexicalRetriever))
    assert best.chunk_id == alone.chunk_id


def test_words_that_do_not_help_leave_it_to_the_vectors(database: Database, tmp_path: Path, use: Use) -> None:
    files = corpus(own_words=0, topics=MANY)
    use(KnowsTopics(files))
    ingested(database, tmp_path, "acme", files)
    assert (weight_of(database, "acme") or 0.0) >= 0.85
    numbers = found_of(database, "acme").evidence["ndcg@10"]
    assert numbers["found"] > max(numbers["words_alone"], numbers["default"])


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (corpus(own_words=2, topics=FEWEST - 1), "two sentences"),
        ({f"{n}.txt": f"One sentence of file number {n} and no other" for n in range(2 * FEWEST)}, "two sentences"),
        ({f"{n}.txt": CODE.format(n=n) for n in range(2 * FEWEST)}, "source code"),
    ],
)
def test_where_there_is_too_little_to_find_it_from_the_default_holds(
    database: Database, tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    ingested(database, tmp_path, "acme", files)
    found = found_of(database, "acme")
    assert (weight_of(database, "acme"), found.dense_weight) == (None, None)
    assert reason in found.evidence["reason"]


def test_the_same_texts_give_the_same_weight_and_it_is_found_once(database: Database, tmp_path: Path, use: Use) -> None:
    model = use(KnowsNothing())
    files = corpus(own_words=2)
    for tenant in ("acme", "umbra"):
        ingested(database, tmp_path / tenant, tenant, files)
    first, second = found_of(database, "acme"), found_of(database, "umbra")
    assert (first.dense_weight, first.evidence) == (second.dense_weight, second.evidence)
    asked = model.queries
    ingest(database, "acme", "support", "hash-64")
    (tmp_path / "acme" / "one.txt").write_text("One file more. It changes little.")
    ingest(database, "acme", "support", "hash-64")
    assert (model.queries, found_of(database, "acme")) == (asked, first), "the statistics hold, and so does the weight"
    for name in list(files)[:8]:
        (tmp_path / "acme" / name).unlink()
    ingest(database, "acme", "support", "hash-64", confirm_loss=True)
    assert model.queries > asked
    assert found_of(database, "acme").evidence["queries"] < first.evidence["queries"]


def test_the_same_texts_are_fused_the_same_whichever_ids_their_chunks_got(
    database: Database, tmp_path: Path, use: Use
) -> None:
    """There are more of them than any sample holds, and what is drawn does not depend on ids, which are random."""
    use(KnowsNothing())
    files = corpus(own_words=0, topics=MORE)
    for tenant in ("acme", "umbra"):
        ingested(database, tmp_path / tenant, tenant, files)
    assert found_of(database, "acme").evidence == found_of(database, "umbra").evidence
    question = " ".join(files["042.txt"].split()[:3])
    scopes = [open_scope(database, tenant, "support") for tenant in ("acme", "umbra")]
    answers = [
        {hit.content: hit.score for hit in search.search(question, scope, top_k=20)}
        for search in (HybridRetriever(database, dense_weight=0.5), HybridRetriever(database))
        for scope in scopes
    ]
    assert answers[0] == pytest.approx(answers[1])
    assert answers[2] == pytest.approx(answers[3])


def test_a_database_of_a_version_before_finds_it_with_the_next_ingest(
    database: Database, tmp_path: Path, use: Use
) -> None:
    use(KnowsNothing())
    ingested(database, tmp_path, "acme", corpus(own_words=2))
    weight = weight_of(database, "acme")
    with psycopg.connect(database.url) as connection:
        connection.execute("DELETE FROM rag.found_weights")
    assert weight_of(database, "acme") is None
    ingest(database, "acme", "support", "hash-64")
    assert weight_of(database, "acme") == weight


def test_a_model_that_cannot_be_asked_leaves_the_default_and_stops_nothing(
    database: Database, tmp_path: Path, use: Use
) -> None:
    use(KnowsNothing()).broken = True
    report = ingested(database, tmp_path, "acme", corpus(own_words=2))
    assert report.lexical.chunks == TOPICS
    assert weight_of(database, "acme") is None
    assert "the model is gone" in found_of(database, "acme").evidence["reason"]


def test_a_tuned_weight_goes_before_the_found_one_which_comes_back(
    database: Database, tmp_path: Path, use: Use
) -> None:
    use(KnowsNothing())
    ingested(database, tmp_path, "acme", corpus(own_words=2))
    found = weight_of(database, "acme")
    with database.work("acme", "support") as connection:
        built = built_profile(connection, "acme", "support", "hash-64")
        set_tuned_weight(connection, built, 0.8, {})
    assert weight_of(database, "acme") == 0.8
    with database.work("acme", "support") as connection:
        assert reset_tuned_weight(connection, built)
    assert weight_of(database, "acme") == found


def test_private_passages_have_no_part_in_it(database: Database, tmp_path: Path, use: Use) -> None:
    use(KnowsNothing())
    shared, secret = corpus(own_words=2), corpus(own_words=0)
    ingested(database, tmp_path / "acme", "acme", shared)
    ingested(database, tmp_path / "umbra", "umbra", {**shared, **{f"p{name}": text for name, text in secret.items()}})
    before = found_of(database, "umbra").evidence
    with psycopg.connect(database.url) as connection:
        connection.execute(
            "UPDATE rag.knowledge_sources SET scope_type = 'user', scope_user_id = 'ann'"
            " WHERE tenant_id = 'umbra' AND name LIKE 'p%'"
        )
        connection.execute("UPDATE rag.index_state SET counts_shared_only = false")
    ingest(database, "umbra", "support", "hash-64")
    assert found_of(database, "umbra").evidence == found_of(database, "acme").evidence != before


def test_it_is_its_tenants_alone_and_goes_with_them(database: Database, tmp_path: Path, use: Use) -> None:
    use(KnowsNothing())
    for tenant in ("acme", "umbra"):
        ingested(database, tmp_path / tenant, tenant, corpus(own_words=2))
    with database.work("acme") as connection:
        assert connection.execute("SELECT DISTINCT tenant_id FROM rag.found_weights").fetchall() == [("acme",)]
    report = erase(database, "acme")
    assert report.counts["found_weights"] == 1
    assert not any(report.remaining.values())
    assert weight_of(database, "umbra") is not None
