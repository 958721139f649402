"""What the HTTP door is asked and answers, as OpenAPI shows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from rag_assets.retrieval.limits import MAX_CONTEXT_TOKENS, MAX_TOP_K

MAX_NAME_CHARS = 1_000


class SearchRequest(BaseModel):
    """A question."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"query": "how long is the warranty"},
                {"query": "PX-4412 pressure", "top_k": 3, "retriever": "lexical"},
                {
                    "query": "returns",
                    "filters": {"content_types": ["text/markdown"], "since": "2026-01-31"},
                    "request_key": "conversation-17",
                },
            ]
        },
    )

    query: Annotated[
        str, Field(description="The question, or words, or a code. Longer than 8,000 characters it is cut.")
    ]
    top_k: Annotated[StrictInt, Field(ge=1, le=MAX_TOP_K, description="Most results to return.")] = 8
    filters: Annotated[
        dict[str, Any] | None, Field(description="Which sources may answer, as `rag search --filter` takes them.")
    ] = None
    retriever: Annotated[
        str | None,
        Field(max_length=MAX_NAME_CHARS, description="One that this server was started with; without it, its default."),
    ] = None
    request_key: Annotated[
        str | None,
        Field(
            max_length=MAX_NAME_CHARS,
            description="Decides whether a canary answers: the same key, the same profile. Without it, none does.",
        ),
    ] = None


class ContextRequest(SearchRequest):
    """A question whose answer is to be written from what is found."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"query": "how long is the warranty"},
                {"query": "how long is the warranty", "top_k": 20, "max_tokens": 1500, "per_source": 2},
            ]
        },
    )

    max_tokens: Annotated[StrictInt, Field(ge=1, le=MAX_CONTEXT_TOKENS, description="Most tokens of the text.")] = 2000
    per_source: Annotated[
        StrictInt | None, Field(ge=1, le=MAX_TOP_K, description="Most passages of one source. Without it, any number.")
    ] = None


class FeedbackRequest(BaseModel):
    """Whether a result of a search helped."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "query_id": "01a224e8-ed58-7cdd-822f-e088b228a697",
                    "chunk_id": "97d0d889-2b31-c32a-d1ab-7f3ba21519c2",
                    "helpful": True,
                }
            ]
        },
    )

    query_id: Annotated[str, Field(max_length=36, description="That of the answer of `/search` or `/context`.")]
    chunk_id: Annotated[str, Field(max_length=36, description="That of one of its results.")]
    helpful: Annotated[StrictBool | None, Field(description="Null takes back what was said before.")]


class FeedbackAnswer(BaseModel):
    """What is noted."""

    query_id: str
    chunk_id: str
    helpful: bool | None


class Result(BaseModel):
    """One chunk with its citation."""

    chunk_id: str
    source_id: str
    source_name: str
    score: float
    content: str
    citation: dict[str, Any]
    dense_score: float | None
    lexical_score: float | None
    metadata: dict[str, Any]
    space: Literal["bot", "tenant", "user"]
    index: str | None = None
    rerank_score: float | None = None
    path: list[dict[str, Any]] | None = None


class SearchAnswer(BaseModel):
    """What was found, best first."""

    query_id: str
    profile: str
    mode: str | None
    retriever: str | None
    rung: Literal["full", "retry", "words", "none", "no_reliable_source"]
    timings_ms: dict[str, float]
    results: list[Result]
    degraded: str | None
    trace: list[dict[str, Any]]


class Passage(Result):
    """One chunk, with the number to cite it by."""

    number: int


class Left(BaseModel):
    """A passage that is not in the context, and why."""

    chunk_id: str
    source_name: str
    why: Literal["duplicate", "per_source", "budget"]
    of: int | None


class ContextAnswer(BaseModel):
    """A text for a model, with numbers to cite by; empty where nothing was found."""

    query_id: str
    profile: str
    text: str
    tokens: int
    passages: list[Passage]
    left_out: list[Left]
    rung: str
    timings_ms: dict[str, float]
    degraded: str | None


class Source(BaseModel):
    """A source, and how far it is. `published`, `chunks` and `up_to_date` are those of the profile that answers."""

    id: str
    name: str
    source_type: str
    content_type: str | None
    locale: str | None
    status: Literal["queued", "processing", "ready", "no_text", "failed", "forgotten"]
    error: str | None
    url: str | None
    space: Literal["bot", "tenant", "user"]
    published: Literal["ready", "failed"] | None
    chunks: int
    up_to_date: bool | None
    created_at: str
    updated_at: str


class SourceAnswer(Source):
    """One source."""

    query_id: str


class SourcesAnswer(BaseModel):
    """A page of sources, by id. `next` is what the next page is asked with; null at the end."""

    query_id: str
    sources: list[Source]
    next: str | None


class PushRequest(BaseModel):
    """A text that is handed over. A file is sent as it is, under its own Content-Type."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"text": "# Returns\n\nWithin thirty days.", "name": "returns.md", "metadata": {"team": "sales"}},
                {"text": "Closed on Mondays."},
            ]
        },
    )

    text: Annotated[str, Field(description="The document.")]
    name: Annotated[
        str | None, Field(description="What people know it by; its ending says what kind it is. (default: the id)")
    ] = None
    content_type: Annotated[str | None, Field(description="What kind it is, where the name does not say it.")] = None
    metadata: Annotated[dict[str, Any] | None, Field(description="What searches can filter by.")] = None


ASKED: dict[str, type[BaseModel]] = {
    "/search": SearchRequest,
    "/context": ContextRequest,
    "/feedback": FeedbackRequest,
    "/sources/{id:path}": PushRequest,
}  # what the body of a route holds


class PushAnswer(BaseModel):
    """What became of it: `unchanged` where the same was there, `forgotten` where the same was forgotten before, and
    is not taken again."""

    query_id: str
    id: str
    outcome: Literal["pushed", "unchanged", "forgotten"]
    checksum: str
    bytes: int


class Removed(BaseModel):
    """A document that was taken back."""

    query_id: str
    id: str
    deleted: bool


class PushedAnswer(BaseModel):
    """A document that was handed over, and how far it is: `state` is that of the profile that answers, `profiles` has
    those of all."""

    query_id: str
    id: str
    state: Literal["received", "ingested", "failed", "no_text", "forgotten", "deleted"]
    error: str | None
    name: str
    content_type: str | None
    bytes: int
    checksum: str
    metadata: dict[str, Any]
    user: str | None
    pushed_at: str
    pushed_by: str
    deleted_at: str | None
    sources: int
    source_ids: list[str]
    profiles: dict[str, str]


class Fault(BaseModel):
    """What is wrong. `argument` is the field or header at fault; the log of the server has the `query_id`."""

    type: str
    message: str
    argument: str | None = None
    query_id: str


class ErrorAnswer(BaseModel):
    """Every error has this form."""

    error: Fault


_TOLD = {
    400: ("a field is missing, unknown, out of bounds or of the wrong kind", "InvalidArgument", "top_k"),
    401: ("no token, or none that is good", "Unauthorized", None),
    403: ("this token may not do that, or a page of another site asks", "Forbidden", None),
    404: ("there is no such thing", "NotFound", None),
    408: ("the body did not come in time", "RequestTimeout", None),
    409: ("the bot has as many pushed documents, or bytes of them, as it may", "PushLimitReached", None),
    413: ("the body is too large", "PayloadTooLarge", None),
    415: ("the body is of another type, or compressed", "UnsupportedMediaType", "Content-Type"),
    429: ("too many requests; `Retry-After` says when to ask again", "RateLimited", None),
    503: ("the store, a model or this server cannot answer now", "DatabaseUnavailable", None),
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for OpenAPI; without statuses, those that any route with a token may have."""
    told: dict[int | str, dict[str, Any]] = {}
    for status in statuses or (400, 401, 403, 429, 503):
        meaning, kind, argument = _TOLD[status]
        example = {"type": kind, "message": meaning, "query_id": "0f5b5a1d2c7e4d1f8f3f6f0f9f1d2a3b"}
        if argument:
            example["argument"] = argument
        content = {"application/json": {"example": {"error": example}}}
        told[status] = {"model": ErrorAnswer, "description": meaning.capitalize(), "content": content}
    return told
