"""A retriever as a file: which kind it is, with its settings, and in tables what it is made of.

    kind = "hybrid"
    dense_weight = 0.6

A table or a list of tables that has a `kind` of its own is a part: another retriever, a reranker. The settings are the
keyword arguments of the kind's class, which checks their values.
"""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_assets.chat.google import GoogleChat
from rag_assets.chat.openai import OpenAIChat
from rag_assets.errors import EmbeddingError, UsageError
from rag_assets.retrieval.agentic import AgenticRetriever
from rag_assets.retrieval.caches import CachedRetriever
from rag_assets.retrieval.diverse import DiverseRetriever
from rag_assets.retrieval.dual import DualRetriever
from rag_assets.retrieval.expanded import ExpandedRetriever
from rag_assets.retrieval.graph import GraphRetriever
from rag_assets.retrieval.ladder import LadderRetriever, TimedRetriever
from rag_assets.retrieval.protocol import Retriever
from rag_assets.retrieval.reranked import RerankedRetriever
from rag_assets.retrieval.rerankers.bi_encoder import BiEncoderReranker
from rag_assets.retrieval.rerankers.chat import ChatReranker
from rag_assets.retrieval.rerankers.cross_encoder import CrossEncoderReranker
from rag_assets.retrieval.rerankers.server import ServerReranker
from rag_assets.retrieval.retrievers import DenseRetriever, HybridRetriever, LexicalRetriever
from rag_assets.retrieval.rewriting import RewritingRetriever
from rag_assets.store.database import Database

_MOST_BYTES, _MOST_DEEP = 100_000, 50

# What a `kind` makes. One that asks the database has a parameter `database`.
KINDS: Mapping[str, Callable[..., Any]] = {
    "agentic": AgenticRetriever,
    "bi_encoder": BiEncoderReranker,
    "chat_reranker": ChatReranker,
    "cached": CachedRetriever,
    "cross_encoder": CrossEncoderReranker,
    "dense": DenseRetriever,
    "diverse": DiverseRetriever,
    "dual": DualRetriever,
    "expanded": ExpandedRetriever,
    "google_chat": GoogleChat,
    "graph": GraphRetriever,
    "hybrid": HybridRetriever,
    "ladder": LadderRetriever,
    "lexical": LexicalRetriever,
    "openai_chat": OpenAIChat,
    "rerank_server": ServerReranker,
    "reranked": RerankedRetriever,
    "rewriting": RewritingRetriever,
    "timed": TimedRetriever,
}


@dataclass(frozen=True)
class _Part:
    """What a table has to make: what it is called, and what it can do."""

    name: str
    methods: tuple[str, ...]


# By the annotation of the parameter that takes it.
_PARTS = {
    "Retriever": _Part("a retriever", ("search", "asearch")),
    "Reranker": _Part("a reranker", ("score",)),
    "ChatModel": _Part("a chat model", ("complete",)),
}


@dataclass(frozen=True)
class RetrieverFile:
    """What a file of a retriever says. It holds no secrets: keys are named by their environment variables."""

    name: str  # where it was read from, as its errors say it
    spec: Mapping[str, Any]

    def make(self, database: Database) -> Retriever:
        """The retriever that is described.

        Raises:
            UsageError: it names what is not there, or is a part of a retriever; it says where.
            EmbeddingError: a model of this machine cannot run here, since a package is missing; says which.
        """
        made = make_part(database, self.spec, self.name)
        if not hasattr(made, "search"):
            raise UsageError(
                f"{self.name}: {self.spec['kind']!r} is no retriever, but a part of one: a file begins with the kind "
                "of a retriever, and has its parts in tables"
            )
        retriever: Retriever = made
        return retriever


def read_retriever_file(path: Path) -> RetrieverFile:
    """What a file of a retriever says.

    Raises:
        UsageError: it cannot be read, is no TOML, or is no retriever's.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise UsageError(f"{path} is no file of a retriever: it has more than {_MOST_BYTES:,} bytes")
        spec = tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # bytes that are no UTF-8, or text that is no TOML
        raise UsageError(f"{path} is no TOML: {error}") from error
    except RecursionError:
        raise UsageError(f"{path}: its lists are nested too deep") from None
    if _depth(spec) > _MOST_DEEP:
        raise UsageError(f"{path}: its tables and lists are nested more than {_MOST_DEEP} deep")
    if "kind" not in spec:
        meant = next((f", did you mean kind for {name!r}?" for name in spec if _meant(name, {"kind": None})), "")
        raise UsageError(f"{path}: the file of a retriever says which kind it is{meant or ':'} One of {_listed(KINDS)}")
    return RetrieverFile(str(path), spec)


def _depth(spec: Mapping[str, Any]) -> int:
    """How many tables and lists lie in each other, at most."""
    depth = 0
    level: list[Any] = [spec]
    while level:
        inner = [one for part in level for one in (part.values() if isinstance(part, Mapping) else part)]
        level = [one for one in inner if isinstance(one, Mapping | list)]
        depth += 1
    return depth


def load_retriever(database: Database, path: str | Path) -> Retriever:
    """The retriever that a file describes. What it names is checked now, and nothing is searched.

    Raises:
        UsageError: the file cannot be read, or names what is not there; it says where.
        EmbeddingError: a model of this machine cannot run here, since a package is missing; says which.
    """
    return read_retriever_file(Path(path)).make(database)


def make_part(database: Database, spec: Mapping[str, Any], where: str) -> Any:
    """What a table makes; `where` says in errors which one it is.

    Raises:
        UsageError: an unknown kind or setting, one that is missing, or a value that the kind does not take.
    """
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise UsageError(f"{where}: there is no kind {kind!r}{_meant(kind, KINDS)} Known are {_listed(KINDS)}")
    build = KINDS[kind]
    parameters = dict(inspect.signature(build).parameters)
    given = {"database": database} if parameters.pop("database", None) is not None else {}
    settings = {name: value for name, value in spec.items() if name != "kind"}
    for name in settings:
        if name not in parameters:
            known = f"{_meant(name, parameters)} It has {_listed(parameters)}"
            raise UsageError(f"{where}: {kind!r} has no setting {name!r}{known}")
    needed = [name for name, one in parameters.items() if one.default is one.empty and name not in settings]
    if needed:
        raise UsageError(f"{where}: {kind!r} needs {_listed(needed)}")
    made = {name: _value(database, value, f"{where}, {name}") for name, value in settings.items()}
    for name, value in made.items():
        _require_part(parameters[name].annotation, name, value, f"{where}, {name}")
    try:
        return build(**given, **made)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    except EmbeddingError as error:  # a model of this machine that cannot run here
        raise EmbeddingError(f"{where}: {error}") from error


def _require_part(annotation: object, name: str, value: object, where: str) -> None:
    """Refuse what is no part where one has to be, in the words of the file.

    Raises:
        UsageError: names the table, and what it lacks.
    """
    wanted = _PARTS.get(str(annotation))
    if wanted is None or all(hasattr(value, method) for method in wanted.methods):
        return
    kinds = [kind for kind, made in KINDS.items() if all(hasattr(made, method) for method in wanted.methods)]
    got = next((f"the kind {kind!r}" for kind, made in KINDS.items() if type(value) is made), None)
    if got is None:
        got = "a table without a kind" if isinstance(value, Mapping) else repr(value)
        got = "a list of tables" if isinstance(value, list) else got
    raise UsageError(
        f"{where}: this is {got}, and has to be {wanted.name}: a table [{name}] with a kind, one of {_listed(kinds)}"
    )


def _value(database: Database, value: Any, where: str) -> Any:
    if isinstance(value, Mapping) and "kind" in value:
        return make_part(database, value, where)
    if isinstance(value, list):
        return [_value(database, one, f"{where} {number}") for number, one in enumerate(value, start=1)]
    return value


def _meant(name: object, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(str(name), list(known), 1)
    return f", did you mean {close[0]!r}?" if close else "."


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"
