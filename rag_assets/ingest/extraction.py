"""Triples that a chat model finds in chunks, where a profile asks for it.

Each text is asked about once: what came of it is kept by its hash, the model and the version of the prompt, also where
that is nothing. A text that the model refuses, or answers with nonsense, is published without triples.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from rag_assets.chat.forms import DATA_RULE, data_block, read_form, schema_of
from rag_assets.chat.named import chat_of, server_of
from rag_assets.chat.protocol import ChatMessage, ChatModel
from rag_assets.embedding.profiles import TripleOptions
from rag_assets.errors import ChatError, ModelNonsense, ModelRefused, ModelUnavailable
from rag_assets.ingest.mentions import nearest_mentions
from rag_assets.progress import stage
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.triples import MAX_NAME_CHARS, FoundTriples, Place, Triple, TripleAnswers

PROMPT_VERSION = 1  # raise it when the prompt or the form of the answer changes
_RULES = (
    "You read a passage of a document and write down what it says, as triples of subject, predicate and object. "
    "Subjects and objects are names of things, people, places, products, numbers or dates, written as the passage "
    "writes them and without pronouns; the heading says what the passage is about. Predicates are short and read as a "
    "sentence between the two. Take only what the passage itself says. The confidence is a number from 0 to 1. A "
    "passage that says nothing of that kind has no triples. "
) + DATA_RULE
_PROBE = "The river Osk flows through the town of Harrowfen."
_MAX_TOKENS = 4096
_LIMIT_S = 60.0
_AT_ONCE = 4  # requests
_MOST_TRIPLES = 100  # of one chunk


class _Found(BaseModel):
    model_config = ConfigDict(extra="forbid")
    subject: str
    predicate: str
    object: str
    confidence: float


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    triples: list[_Found]


@dataclass
class ExtractReport:
    """Texts that a model was asked about, what it read and wrote, and the texts that are published without triples
    because it gave no answer."""

    asked: int = 0
    tokens: int = 0
    unanswered: int = 0

    def add(self, other: ExtractReport) -> None:
        """Count in what was asked for another profile."""
        self.asked += other.asked
        self.tokens += other.tokens
        self.unanswered += other.unanswered


def extract_triples(database: Database, built: BuiltProfile, chunks: pa.Table) -> ExtractReport:
    """Ask the profile's model about every chunk whose text it was not asked about.

    Raises:
        ChatError: the model cannot be asked at all, or not now; what it has answered is kept.
    """
    report = ExtractReport()
    options = built.profile.options.graph
    if options is None or not chunks.num_rows:
        return report
    answers = TripleAnswers(database, built.tenant, built.bot, model_key(options))
    texts = {text_hash(*text): text for text in _texts(chunks)}
    known = answers.get(list(texts))
    new = {digest: text for digest, text in texts.items() if digest not in known}
    if new:
        chat = chat_of(options)
        try:
            _ask_all(chat, built, answers, new, report)
        finally:
            chat.close()
    report.unanswered = sum(one.error is not None for one in answers.get(list(texts)).values())
    return report


def triples_of_chunks(
    database: Database, built: BuiltProfile, chunks: Sequence[Mapping[str, Any]]
) -> dict[UUID, list[tuple[Triple, Place]]]:
    """What the profile's model found in chunks of the staged table, with its place, by source. What names nothing that
    stands in its chunk is left out."""
    options = built.profile.options.graph
    if options is None:
        return {}
    hashes = [text_hash(chunk["context"], chunk["content"]) for chunk in chunks]
    known = TripleAnswers(database, built.tenant, built.bot, model_key(options)).get(hashes)
    found: dict[UUID, list[tuple[Triple, Place]]] = {}
    for chunk, digest in zip(chunks, hashes, strict=True):
        if chunk["media"] is not None or digest not in known:
            continue
        source, start = UUID(chunk["source_id"]), int(json.loads(chunk["citation"])["start"])
        for triple in known[digest].triples:
            span = nearest_mentions(chunk["content"], triple.subject, triple.object, strict=False)
            if span is not None:
                place = Place(source, chunk["checksum"], start + span[0], start + span[1])
                found.setdefault(source, []).append((triple, place))
    return found


def model_key(options: TripleOptions) -> str:
    """Names what decides which triples are found in a given text."""
    asked = [PROMPT_VERSION, options.provider, options.model, server_of(options)]
    digest = hashlib.sha256(json.dumps(asked).encode())
    return f"{options.provider}:{options.model}:{digest.hexdigest()[:12]}"


def text_hash(context: str | None, content: str) -> bytes:
    """What stands for the text that a model reads."""
    return hashlib.sha256(json.dumps([context or "", content]).encode()).digest()


def _texts(chunks: pa.Table) -> Iterable[tuple[str | None, str]]:
    columns = (chunks[name].to_pylist() for name in ("context", "content", "media"))
    return ((context, content) for context, content, media in zip(*columns, strict=True) if media is None)


def _ask_all(
    chat: ChatModel,
    built: BuiltProfile,
    answers: TripleAnswers,
    texts: Mapping[bytes, tuple[str | None, str]],
    report: ExtractReport,
) -> None:
    asker = _Asker(chat)
    with (
        stage(f"find triples {built.bot}", len(texts)) as bar,
        ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="triples") as pool,
    ):
        found = pool.map(lambda one: (one[0], asker.ask(*one[1])), texts.items())
        for digest, one in found:
            if one is not None:
                answers.put(digest, one)  # committed one by one: each has cost something
                report.asked += 1
                report.tokens += one.tokens
            bar.advance(1)
    if asker.failure is not None:
        raise type(asker.failure)(
            f"triples of {built.tenant}/{built.bot} for profile {built.profile.name!r}: {asker.failure}; what was "
            "answered is kept, and the next run goes on from there"
        ) from asker.failure


class _Asker:
    """Asks about texts one by one, until the model cannot be asked any more; then `failure` says why."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat
        self.failure: ChatError | None = None
        self._answers_at_all = False

    def ask(self, context: str | None, content: str) -> FoundTriples | None:
        """What the model finds in a text, or why it gave no answer; None where it was not asked, or is away."""
        if self.failure is not None:
            return None
        try:
            return self._once(context, content)
        except ModelNonsense:
            return self._again(context, content)
        except ModelRefused as error:
            return self._refused(error)
        except ChatError as error:
            self.failure = error
        return None

    def _again(self, context: str | None, content: str) -> FoundTriples | None:
        try:
            return self._once(context, content)
        except ModelUnavailable as error:
            self.failure = error
            return None
        except ChatError as error:
            return FoundTriples((), str(error), 0)

    def _refused(self, error: ModelRefused) -> FoundTriples | None:
        """One that refuses a plain sentence, too, refuses the key or the request, and not the text."""
        try:
            if not self._answers_at_all:
                self._once(None, _PROBE)
        except ModelNonsense:
            pass  # it has answered
        except ChatError as failure:
            self.failure = failure
            return None
        return FoundTriples((), str(error), 0)

    def _once(self, context: str | None, content: str) -> FoundTriples:
        told = (ChatMessage("system", _RULES), ChatMessage("user", data_block([context or "", content])))
        answer = self._chat.complete(told, schema=schema_of(_Answer), max_tokens=_MAX_TOKENS, limit_s=_LIMIT_S)
        self._answers_at_all = True
        found = read_form(answer, _Answer).triples[:_MOST_TRIPLES]
        return FoundTriples(tuple(filter(None, map(_triple, found))), None, answer.tokens)


def _triple(found: _Found) -> Triple | None:
    said = found.subject, found.predicate, found.object
    subject, predicate, about = (" ".join(name.replace("\x00", " ").split()) for name in said)
    if not all(0 < len(name) <= MAX_NAME_CHARS for name in (subject, predicate, about)):
        return None
    return Triple(subject, predicate, about, found.confidence) if 0 < found.confidence <= 1 else None
