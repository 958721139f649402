"""How much meaning counts against words in a profile's hybrid search, found without labels when its statistics are
made: a sentence is cut out of a passage, and which list better finds what is left of it has more to say.

docs/retrieval/fusion.md says why, and what it does on collections with labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rag_assets.documents.model import embedding_text
from rag_assets.embedding.models import texts_at_once
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import EmbeddingError
from rag_assets.ingest.embeddings import require_origin
from rag_assets.ingest.leg_weights import Estimate, Trials, estimate, nearest, term_matrix, trials
from rag_assets.ingest.self_queries import SelfQuery, is_prose, self_queries
from rag_assets.printing import counted
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.weights import (
    DEFAULT_WEIGHT,
    Passage,
    Sample,
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


def find_weight(database: Database, built: BuiltProfile) -> float | None:
    """Find the weight of a profile whose statistics were made since it was last looked for, and store it with its
    evidence; None where nothing was to be looked for, or nothing found, which leaves the default.
    """
    with database.work(built.tenant) as connection:
        statistics = statistics_without_weight(connection, built)
        limit = texts_at_once(built.profile.provider)
        sample = sample_passages(connection, built, POOL if limit else 0) if statistics else None
    if statistics is None or sample is None:
        return None
    looked = _looked(database, built, statistics, sample, limit)
    with database.work(built.tenant) as connection:
        set_found_weight(connection, built, looked.weight, looked.evidence, statistics)
    return looked.weight


def _looked(database: Database, built: BuiltProfile, statistics: Statistics, sample: Sample, limit: int) -> _Looked:
    if not limit:
        return _nothing(f"the model of {built.profile.provider} is asked over a network")
    texts = [passage.content for passage in sample.passages]
    if sum(map(is_prose, texts)) < len(texts) / 2:
        return _nothing("most passages are source code or tables, whose lines are no questions")
    asked = [query for query in self_queries(texts, limit) if is_prose(texts[query.place])]
    if len(asked) < FEWEST:
        return _nothing(f"{counted(len(asked), 'passage has', 'passages have')} two sentences, and {FEWEST} are needed")
    try:
        require_origin(built, built.profile.origin)
        both = _tried(database, built, statistics, sample, asked)
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


def _tried(
    database: Database, built: BuiltProfile, statistics: Statistics, sample: Sample, asked: Sequence[SelfQuery]
) -> list[Trials]:
    """Each query among all passages, its own being what is left of it: in the hard case, and in the easy one."""
    embedder = embedder_for(built.profile)
    vectors = np.concatenate([embedder.embed_query(query.text).vectors for query in asked])
    left = [query.hard for query in asked] + [query.easy for query in asked]
    contexts = [_context(built, sample.passages[query.place]) for query in asked] * 2
    texts = [embedding_text(context, text) for context, text in zip(contexts, left, strict=True)]
    embedded = embedder.embed_documents(texts).vectors
    with database.work(built.tenant) as connection:
        queries = terms_of_queries(connection, built, [query.text for query in asked])
        terms = terms_of_texts(connection, built, left, statistics)
    words = np.unique(queries.numbers)
    wanted = term_matrix(queries, words)
    dense, lexical = vectors @ sample.vectors.T, wanted @ term_matrix(sample.terms, words).T
    cases = zip(np.split(embedded, 2), np.split(term_matrix(terms, words), 2), strict=True)
    own = [query.place for query in asked]
    # What else the same source says is no wrong answer, and overlapping chunks hold the sentence itself.
    sources = np.array([str(passage.source_id) for passage in sample.passages])
    others = sources[None, :] != sources[own][:, None]
    found = []
    for near, said in cases:
        dense[range(len(own)), own] = np.einsum("nd,nd->n", vectors, near)
        lexical[range(len(own)), own] = np.einsum("nt,nt->n", wanted, said)
        found.append(trials(dense, lexical, own, others, statistics.dense_floor))
    return found


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
