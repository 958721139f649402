"""Triples that a chat model finds in chunks, where a profile asks for it.

Each text is asked about once: what came of it is kept by its hash, the model and the version of the prompt, also where
that is nothing. A text that the model refuses, or answers with nonsense, is published without triples, remembered as
one that could not be embedded is, and asked about again when it is time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any
from uuid import UUID

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from rag_assets.chat.forms import DATA_RULE, data_block, read_form, schema_of
from rag_assets.chat.named import chat_of, server_of
from rag_assets.chat.prices import chat_price
from rag_assets.chat.protocol import ChatMessage, ChatModel, estimated_tokens
from rag_assets.embedding.profiles import EmbeddingProfile, TripleOptions
from rag_assets.embedding.refused import Refusal
from rag_assets.errors import ChatError, CostCeilingReached, ModelNonsense, ModelRefused, ModelUnavailable
from rag_assets.ingest.chat_budget import Budget
from rag_assets.ingest.mentions import nearest_mentions
from rag_assets.progress import stage
from rag_assets.store.database import Database
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.refused import PgRefusedTexts
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
_NO_BOT = ""  # of who only looks up
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
    """Texts that a model was asked about, the tokens that it read and wrote and what they cost, and the texts that are
    published without triples because it gave no answer; `again` says when their sources are tried again."""

    asked: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    unanswered: int = 0
    again: dict[UUID, datetime] = field(default_factory=dict)

    def add(self, other: ExtractReport) -> None:
        """Count in what was asked for another profile."""
        self.asked += other.asked
        self.tokens += other.tokens
        self.cost_usd += other.cost_usd
        self.unanswered += other.unanswered
        self.again |= other.again


def extract_triples(database: Database, built: BuiltProfile, chunks: pa.Table) -> ExtractReport:
    """Ask the profile's model about every chunk whose text it was not asked about.

    Raises:
        ChatError: the model cannot be asked at all, or not now; what it has answered is kept.
        CostCeilingReached: the next request could cost more than the profile may.
    """
    report = ExtractReport()
    options = built.profile.options.graph
    if options is None or not chunks.num_rows:
        return report
    answers = _answers(database, built, options)
    refused = PgRefusedTexts(database, built.tenant, built.bot, answers.model_key)
    sources: dict[bytes, set[UUID]] = {}
    texts: dict[bytes, tuple[str | None, str]] = {}
    for source, context, content in _texts(chunks):
        digest = text_hash(context, content)
        sources.setdefault(digest, set()).add(source)
        texts[digest] = (context, content)
    known = answers.known(list(texts))
    answers.count(known=len(known))
    held = refused.get([digest for digest in texts if digest not in known])
    new = {digest: text for digest, text in texts.items() if digest not in known and digest not in held}
    if new:
        chat = chat_of(options)
        budget = Budget(database, built, chat_price(options.provider, options.model))
        try:
            _ask_all(_Asker(chat, budget), built, answers, refused, new, report)
        finally:
            chat.close()
    missing = set(texts) - answers.known(list(texts))
    report.unanswered = len(missing)
    of_sources: dict[UUID, set[bytes]] = {}
    for digest in missing:
        for source in sources[digest]:
            of_sources.setdefault(source, set()).add(digest)
    moments = {source: refused.next_try(hashes) for source, hashes in of_sources.items()}
    report.again = {source: moment for source, moment in moments.items() if moment is not None}
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
    known = _answers(database, built, options).get(hashes)
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


def unasked(database: Database, tenant: str, profile: EmbeddingProfile, hashes: Sequence[bytes]) -> set[bytes]:
    """About which of these texts a run would ask the profile's model; none where it has none."""
    options = profile.options.graph
    if options is None or not hashes:
        return set()
    answers = TripleAnswers(database, tenant, _NO_BOT, profile.name, model_key(options))
    left = set(hashes) - answers.known(hashes)
    return left - set(PgRefusedTexts(database, tenant, _NO_BOT, answers.model_key).get(list(left)))


def graph_cost(profile: EmbeddingProfile, read: int, written: int) -> float | None:
    """What so many tokens of the profile's chat model cost, in dollars; None where its price is not known."""
    options = profile.options.graph
    if options is None:
        return 0.0
    price = chat_price(options.provider, options.model)
    return None if price is None else price.cost_usd(read, written)


def model_key(options: TripleOptions) -> str:
    """Names what decides which triples are found in a given text."""
    asked = [PROMPT_VERSION, options.provider, options.model, server_of(options)]
    digest = hashlib.sha256(json.dumps(asked).encode())
    return f"{options.provider}:{options.model}:{digest.hexdigest()[:12]}"


def text_hash(context: str | None, content: str) -> bytes:
    """What stands for the text that a model reads."""
    return hashlib.sha256(json.dumps([context or "", content]).encode()).digest()


def _answers(database: Database, built: BuiltProfile, options: TripleOptions) -> TripleAnswers:
    return TripleAnswers(database, built.tenant, built.bot, built.profile.name, model_key(options))


def _texts(chunks: pa.Table) -> Iterable[tuple[UUID, str | None, str]]:
    columns = (chunks[name].to_pylist() for name in ("source_id", "context", "content", "media"))
    for source, context, content, media in zip(*columns, strict=True):
        if media is None:
            yield UUID(source), context, content


def _ask_all(
    asker: _Asker,
    built: BuiltProfile,
    answers: TripleAnswers,
    refused: PgRefusedTexts,
    texts: Mapping[bytes, tuple[str | None, str]],
    report: ExtractReport,
) -> None:
    with (
        stage(f"find triples {built.bot}", len(texts)) as bar,
        ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="triples") as pool,
    ):
        found = pool.map(lambda one: (one[0], asker.ask(*one[1])), texts.items())
        for digest, one in found:
            if isinstance(one, FoundTriples):
                answers.put(digest, one)  # committed one by one: each has cost something
                report.cost_usd += one.cost_usd
                report.tokens += one.tokens
            elif one is not None:
                refused.put({digest: one})
            report.asked += one is not None
            bar.advance(1)
    wasted = asker.wasted
    answers.count(tokens=wasted.tokens, cost_usd=wasted.cost_usd)
    report.tokens += wasted.tokens
    report.cost_usd += wasted.cost_usd
    if asker.failure is not None:
        raise type(asker.failure)(
            f"triples of {built.tenant}/{built.bot} for profile {built.profile.name!r}: {asker.failure}; what was "
            "answered is kept, and the next run goes on from there"
        ) from asker.failure


class _Asker:
    """Asks about texts one by one, until the model cannot be asked any more; then `failure` says why."""

    def __init__(self, chat: ChatModel, budget: Budget) -> None:
        self._chat, self._budget = chat, budget
        self.failure: ChatError | CostCeilingReached | None = None
        self._answers_at_all = False
        self._wasting = Lock()
        self.wasted = FoundTriples((), 0)  # on what was no answer

    def ask(self, context: str | None, content: str) -> FoundTriples | Refusal | None:
        """What the model finds in a text, or why it gave no answer; None where it was not asked, or is away."""
        if self.failure is not None:
            return None
        try:
            return self._once(context, content)
        except ModelNonsense:
            return self._again(context, content)
        except ModelRefused as error:
            return self._refused(error)
        except (ChatError, CostCeilingReached) as error:
            self.failure = error
        return None

    def _again(self, context: str | None, content: str) -> FoundTriples | Refusal | None:
        try:
            return self._once(context, content)
        except (ModelUnavailable, CostCeilingReached) as error:
            self.failure = error
            return None
        except ChatError as error:
            return Refusal(str(error), lasting=False)

    def _refused(self, error: ModelRefused) -> Refusal | None:
        """One that refuses a plain sentence, too, refuses the key or the request, and not the text."""
        try:
            if not self._answers_at_all:
                self._once(None, _PROBE)
        except ModelNonsense:
            pass  # it has answered
        except (ChatError, CostCeilingReached) as failure:
            self.failure = failure
            return None
        return Refusal(str(error), lasting=False)  # asked about again, the more seldom the longer: it costs little

    def _once(self, context: str | None, content: str) -> FoundTriples:
        told, answer = _messages(context, content), None
        with self._budget.room_for(request_tokens(context, content)) as paid:
            try:
                answer = self._chat.complete(told, schema=schema_of(_Answer), max_tokens=_MAX_TOKENS, limit_s=_LIMIT_S)
                found = read_form(answer, _Answer).triples[:_MOST_TRIPLES]
            except ModelNonsense as error:
                tokens, written = (answer.tokens, answer.written) if answer else (error.tokens, error.written)
                self._waste(tokens, paid(tokens, written or 0))
                raise
            written = answer.written if answer.written is not None else estimated_tokens(answer.text)
            cost = paid(answer.tokens, written)
        self._answers_at_all = True
        return FoundTriples(tuple(filter(None, map(_triple, found))), answer.tokens, cost)

    def _waste(self, tokens: int, cost: float) -> None:
        self._answers_at_all = True  # though not what was asked for
        with self._wasting:
            self.wasted = FoundTriples((), self.wasted.tokens + tokens, self.wasted.cost_usd + cost)


def request_tokens(context: str | None, content: str) -> tuple[int, int]:
    """About how many tokens a model reads and writes to find the triples of a text: it writes about as much again."""
    said = [one.text for one in _messages(context, content)]
    return estimated_tokens(*said, json.dumps(schema_of(_Answer))), estimated_tokens(content)


def _messages(context: str | None, content: str) -> tuple[ChatMessage, ...]:
    return ChatMessage("system", _RULES), ChatMessage("user", data_block([context or "", content]))


def _triple(found: _Found) -> Triple | None:
    said = found.subject, found.predicate, found.object
    subject, predicate, about = (" ".join(name.replace("\x00", " ").split()) for name in said)
    if not all(0 < len(name) <= MAX_NAME_CHARS for name in (subject, predicate, about)):
        return None
    return Triple(subject, predicate, about, found.confidence) if 0 < found.confidence <= 1 else None
