"""Model families: the words that a model was trained to see in front of a query and in front of a document.

A retrieval model that expects such a prefix and does not get it still answers, only worse: nothing fails. The table
follows the model cards. A profile's `task_instruction` comes before it, for each of the two roles on its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rag_assets.embedding.profiles import EmbeddingProfile

Role = Literal["query", "document"]


@dataclass(frozen=True)
class Prefixes:
    """What comes before a text of each role; empty where the model was trained with nothing."""

    query: str = ""
    document: str = ""


_RETRIEVE = "Given a web search query, retrieve relevant passages that answer the query"
_INSTRUCT = Prefixes(query=f"Instruct: {_RETRIEVE}\nQuery: ")
_SENTENCE = Prefixes(query="Represent this sentence for searching relevant passages: ")
_NONE = Prefixes()

# The first pattern found in the last part of the name decides, so that the particular come before the general.
_FAMILIES: tuple[tuple[str, Prefixes], ...] = (
    (r"\be5-mistral\b|\be5\b.*\binstruct\b", _INSTRUCT),
    (r"\be5\b", Prefixes("query: ", "passage: ")),
    (r"\bbge-m3\b", _NONE),
    (r"\bbge-(multilingual-gemma2|en-icl)\b", Prefixes(query=f"<instruct>{_RETRIEVE}.\n<query>")),
    (r"\bbge\b.*\bzh\b", Prefixes(query="为这个句子生成表示以用于检索相关文章：")),
    (r"\bbge\b", _SENTENCE),
    (r"\bnomic-embed-code\b", Prefixes(query="Represent this query for searching relevant code: ")),
    (r"\bnomic-embed\b", Prefixes("search_query: ", "search_document: ")),
    (r"\bmxbai-embed-de\b", Prefixes("query: ", "passage: ")),
    (r"\bmxbai-embed\b", _SENTENCE),
    (r"\barctic-embed2\b|\barctic-embed\b.*\bv2\b", Prefixes(query="query: ")),
    (r"\barctic-embed\b", _SENTENCE),
    (r"\bqwen3-embedding\b", Prefixes(query=f"Instruct: {_RETRIEVE}\nQuery:")),
    (r"\bgte-qwen2?\b.*\binstruct\b", _INSTRUCT),
    (r"\bembedding-?gemma\b", Prefixes("task: search result | query: ", "title: none | text: ")),
)


def family_prefixes(model: str) -> Prefixes:
    """The prefixes of a model by its name: a hub id, the name on a server, or a folder. Unknown ones have none."""
    name = _last_part(model).replace("_", "-")
    return next((prefixes for pattern, prefixes in _FAMILIES if re.search(pattern, name)), _NONE)


def _last_part(model: str) -> str:
    # In the hub's cache a model lies at models--intfloat--e5-base-v2/snapshots/<revision>.
    path = re.sub(r"/snapshots/[0-9a-f]{40}/?$", "", model.replace("\\", "/").rstrip("/"))
    return re.split(r"/|--", path)[-1].lower()


def shipped_prefixes(prompts: Mapping[str, str | None]) -> Prefixes:
    """The prefixes among the prompts that a model ships by their names, as sentence-transformers keeps them."""
    documents = (prompts.get(name) for name in ("document", "passage", "corpus"))
    return Prefixes(prompts.get("query") or "", next((text for text in documents if text), ""))


def prefixes_of(profile: EmbeddingProfile, shipped: Prefixes = _NONE) -> Prefixes:
    """What a profile puts before its texts: its `task_instruction`, else what the model ships, else its family's."""
    family = family_prefixes(profile.model)
    given = profile.task_instruction
    return Prefixes(
        query=given.get("query", shipped.query or family.query),
        document=given.get("document", shipped.document or family.document),
    )
