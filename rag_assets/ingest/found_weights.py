"""How much meaning counts against words in a profile's hybrid search, found without labels when its statistics are
made: a sentence is cut out of a passage, and which list better finds what is left of it has more to say.

docs/retrieval/fusion.md says why, and what it does on collections with labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_assets.documents.model import embedding_text
from rag_assets.embedding.models import texts_at_once
from rag_assets.embedding.protocol import Embedder
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import EmbeddingError
from rag_assets.ingest.embeddings import require_origin
from rag_assets.ingest.leg_weights import Estimate, Trials, estimate, nearest, term_scores, trials
from rag_assets.ingest.self_queries import SelfQuery, is_prose, self_queries
from rag_assets.printing import counted
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.weights import (
    DEFAULT_WEIGHT,
    Passage,
    Statistics,
    sample_passages,
    set_found_weight,
    statistics_without_weight,
    terms_of_queries,
    terms_of_texts,
)

POOL = 1000  # passages that compete
FEWEST = 50  # queries; fewer prove nothing


@dataclass(frozen=True)
class _Looked:
    """A weight, None where nothing speaks for one, and what it rests on."""

    weight: float | None
    evidence: dict[str, Any]


@dataclass(frozen=True)
class _Scores:
    """Of each query (n, d) and (n, passages): its vector, and its similarities and words in each passage."""

    vectors: NDArray[np.float32]
    dense: NDArray[np.float32]
    lexical: NDArray[np.float32]
    terms: Sequence[dict[int, float]]


def find_weight(database: Database, built: BuiltProfile) -> float | None:
    """Find the weight of a profile whose statistics were made since it was last looked for, and store it with its
    evidence; None where nothing was to be looked for, or nothing found, which leaves the default.
    """
    with database.work(built.tenant) as connection:
        statistics = statistics_without_weight(connection, built)
        limit = texts_at_once(built.profile.provider)
        passages = sample_passages(connection, built, POOL) if statistics and limit else []
    if statistics is None:
        return None
    looked = _looked(database, built, statistics, passages, limit)
    with database.work(built.tenant) as connection:
        set_found_weight(connection, built, looked.weight, looked.evidence, statistics)
    return looked.weight


def _looked(
    database: Database, built: BuiltProfile, statistics: Statistics, passages: Sequence[Passage], limit: int
) -> _Looked:
    if not limit:
        return _nothing(f"the model of {built.profile.provider} is asked over a network")
    texts = [passage.content for passage in passages]
    if sum(map(is_prose, texts)) < len(texts) / 2:
        return _nothing("most passages are source code or tables, whose lines are no questions")
    asked = [query for query in self_queries(texts, limit) if is_prose(texts[query.place])]
    if len(asked) < FEWEST:
        return _nothing(f"{counted(len(asked), 'passage has', 'passages have')} two sentences, and {FEWEST} are needed")
    try:
        require_origin(built, built.profile.origin)
        scores = _scored(database, built, embedder_for(built.profile), passages, asked)
        both = [
            _tried(database, built, statistics, passages, asked, scores, [getattr(query, kind) for query in asked])
            for kind in ("hard", "easy")
        ]
    except EmbeddingError as error:
        return _nothing(f"the model could not be asked: {error}")
    fewest = min(len(found.listed) for found in both)
    if fewest < FEWEST:
        return _nothing(
            f"{fewest} of {len(asked)} sentences have a word in common with any passage, and {FEWEST} are needed"
        )
    return _concluded(*both)


def _nothing(reason: str) -> _Looked:
    return _Looked(None, {"reason": reason})


def _scored(
    database: Database, built: BuiltProfile, embedder: Embedder, passages: Sequence[Passage], asked: Sequence[SelfQuery]
) -> _Scores:
    vectors = np.concatenate([embedder.embed_query(query.text).vectors for query in asked])
    with database.work(built.tenant) as connection:
        terms = terms_of_queries(connection, built, [query.text for query in asked])
    dense = vectors @ np.stack([passage.vector for passage in passages]).T
    return _Scores(vectors, dense, term_scores(terms, [passage.terms for passage in passages]), terms)


def _tried(
    database: Database,
    built: BuiltProfile,
    statistics: Statistics,
    passages: Sequence[Passage],
    asked: Sequence[SelfQuery],
    scores: _Scores,
    left: Sequence[str],
) -> Trials:
    """Each query among all passages, its own being what is `left` of it."""
    contexts = [_context(built, passages[query.place]) for query in asked]
    texts = [embedding_text(context, text) for context, text in zip(contexts, left, strict=True)]
    embedded = embedder_for(built.profile).embed_documents(texts).vectors
    with database.work(built.tenant) as connection:
        terms = terms_of_texts(connection, built, left, statistics)
    own = [query.place for query in asked]
    rows = range(len(asked))
    dense, lexical = scores.dense.copy(), scores.lexical.copy()
    dense[rows, own] = np.einsum("nd,nd->n", scores.vectors, embedded)
    lexical[rows, own] = [
        sum(weight * mine.get(term, 0.0) for term, weight in wanted.items())
        for wanted, mine in zip(scores.terms, terms, strict=True)
    ]
    # What else the same source says is no wrong answer, and overlapping chunks hold the sentence itself.
    sources = np.array([str(passage.source_id) for passage in passages])
    others = sources[None, :] != sources[own][:, None]
    return trials(dense, lexical, own, others, statistics.dense_floor)


def _context(built: BuiltProfile, passage: Passage) -> str:
    """About what the model read in front of the passage; that itself is not kept."""
    if not built.profile.chunking.context_header:
        return ""
    parts = [passage.citation.get("title"), *(passage.citation.get("headings") or ())]
    return " › ".join(dict.fromkeys(str(part) for part in parts if part))


def _concluded(hard: Trials, easy: Trials) -> _Looked:
    estimates = {"hard": estimate(hard), "easy": estimate(easy)}
    weight = nearest(DEFAULT_WEIGHT, list(estimates.values()))
    weights = {"words_alone": 0.0, "default": DEFAULT_WEIGHT, "found": weight, "meaning_alone": 1.0}
    evidence: dict[str, Any] = {
        "queries": len(hard.listed),
        "ndcg@10": {name: round(hard.ndcg(tried), 4) for name, tried in weights.items()},
    }
    return _Looked(weight, evidence | {kind: _told(one) for kind, one in estimates.items()})


def _told(one: Estimate) -> dict[str, float | None]:
    return {"weight": round(one.weight, 3), "error": round(one.error, 3) if np.isfinite(one.error) else None}
