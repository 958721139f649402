"""One side of a comparison: a profile, and how it is searched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

from rag_assets.errors import EmbeddingError, UsageError
from rag_assets.keys import check_key
from rag_assets.retrieval import Retrieval, Retriever, open_scope
from rag_assets.retrieval.files import RetrieverFile, read_retriever_file
from rag_assets.retrieval.retrievers import RETRIEVERS
from rag_assets.retrieval.scope import RetrievalScope
from rag_assets.store.database import Database
from rag_assets.store.search import Mode

_MODES: tuple[Mode, ...] = get_args(Mode)
FORM = "PROFILE, FILE.toml, PROFILE@MODE, PROFILE@FILE.toml, or @MODE for the profile that serves"
LEG_DEPTH = 100  # how far down each list a result's place is looked up


@dataclass(frozen=True)
class Side:
    """A profile (None: the active one), searched in a mode or by the retriever of a file; `word` names it."""

    word: str
    profile: str | None = None
    mode: Mode = "hybrid"
    file: RetrieverFile | None = None

    def retriever(self, database: Database) -> Retriever:
        """What searches.

        Raises:
            UsageError, EmbeddingError: the retriever cannot be made as its file says.
        """
        return self.file.make(database) if self.file else RETRIEVERS[self.mode](database)


@dataclass(frozen=True)
class Asker:
    """Who asks, and for how much."""

    tenant: str
    bot: str
    user: str | None = None
    k: int = 8
    filters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SideAnswer:
    """What one side found. `legs` has, of the lists by meaning (`dense`) and by words (`lexical`), the place of each
    chunk, from 1 on, as far as the first `LEG_DEPTH`."""

    side: Side
    profile: str
    found: Retrieval
    legs: Mapping[str, Mapping[UUID, int]]

    def places(self, chunk: UUID) -> dict[str, int]:
        """Its place in each list that has it."""
        return {leg: places[chunk] for leg, places in self.legs.items() if chunk in places}


def parse_side(word: str, files: Mapping[str, RetrieverFile] | None = None) -> Side:
    """A side as it is named. `files`: the only retriever files that may be named; None: any that can be read.

    Raises:
        UsageError: it is of none of the forms, or names a file that is no retriever's.
    """
    profile, at, how = word.rpartition("@")
    if not at:
        profile, how = ("", word) if word.endswith(".toml") else (word, "hybrid")
    if not word.strip() or not how:
        raise UsageError(f"{word!r} names no side of a comparison: it has to be {FORM}")
    if profile:
        check_key(profile, "profile")
    if how.endswith(".toml"):
        return Side(word, profile or None, file=_file(how, files))
    mode = next((one for one in _MODES if one == how), None)
    if mode is None:
        raise UsageError(f"{word!r}: {how!r} is neither a mode ({', '.join(_MODES)}) nor a FILE.toml")
    return Side(word, profile or None, mode)


def _file(name: str, files: Mapping[str, RetrieverFile] | None) -> RetrieverFile:
    if files is None:
        return read_retriever_file(Path(name))
    if name not in files:
        raise UsageError(f"{name!r} was not named when this page was started; known are: {', '.join(files) or 'none'}")
    return files[name]


def ask_side(database: Database, side: Side, retriever: Retriever, who: Asker, query: str) -> SideAnswer:
    """Put a question to one side.

    Raises:
        RagError: the scope cannot be opened, or the search fails.
    """
    scope = open_scope(database, who.tenant, who.bot, side.profile, who.user)
    found = retriever.search(query, scope, who.k, who.filters)
    legs = {} if side.file is None and side.mode != "hybrid" else _legs(database, scope, query, who.filters)
    return SideAnswer(side, scope.profile.name, found, legs)


def _legs(
    database: Database, scope: RetrievalScope, query: str, filters: Mapping[str, Any]
) -> dict[str, dict[UUID, int]]:
    """The two lists that hybrid search fuses, each by itself; without that by meaning where the query cannot be
    embedded."""
    legs: dict[str, dict[UUID, int]] = {}
    for mode in ("dense", "lexical"):
        try:
            found = RETRIEVERS[mode](database, copies=True).search(query, scope, LEG_DEPTH, filters)
        except EmbeddingError:
            continue  # the side's own answer says so in `degraded`
        legs[mode] = places_of(one.chunk_id for one in found)
    return legs


def places_of(chunks: Iterable[UUID]) -> dict[UUID, int]:
    """The place of each chunk in a list, from 1 on."""
    return {chunk: place for place, chunk in enumerate(chunks, start=1)}
