"""Google's Batch API for embeddings: half the price, and the answer within a day or so.

A job is a file with one line for each text, and its answer a file with a line for each key. The API has no
idempotency key, so each job has a display name of its own, by which one is found again whose creation was not
confirmed. What Google says in errors and states is never passed on in its own words: it may repeat a text.
"""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from google import genai
from google.genai import errors, types

from rag_assets.embedding.check import check_texts
from rag_assets.embedding.models import estimated_tokens
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import BatchAnswer, BatchEmbedder, OpenGate, Outcome, RemoteJob
from rag_assets.embedding.providers.google_client import client_of
from rag_assets.embedding.providers.google_texts import Cutter, role_of
from rag_assets.embedding.providers.requests import RetryPolicy, call_with_retries
from rag_assets.errors import EmbeddingError, TextRefused

FOR_CALLS = RetryPolicy(deadline_seconds=180, attempts=5, attempt_seconds=30)
FOR_TRANSFERS = RetryPolicy(deadline_seconds=900, attempts=5, attempt_seconds=300)  # files of up to some 60 MB
FOR_GLANCES = RetryPolicy(deadline_seconds=10, attempts=1, attempt_seconds=10)  # a sensor that looks again soon

_PAGE = 100
_PAGES = 50  # of jobs that are looked through for one by its name; Google runs at most 100 at a time
_GONE = (403, 404)  # Google says 403 of a file that does not exist

_OUTCOMES: Mapping[str, Outcome] = {
    "SUCCEEDED": "succeeded",
    "PARTIALLY_SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "CANCELLED": "failed",
    "EXPIRED": "failed",
}

_Answer = TypeVar("_Answer")


class GoogleBatches:
    """The batch jobs of one profile. Safe to use from several threads."""

    def __init__(self, profile: EmbeddingProfile, calls: RetryPolicy = FOR_CALLS) -> None:
        self._profile = profile
        self._client = client_of(profile)
        self._role = role_of(profile, "document")
        self._cutter = Cutter(profile.max_input_tokens or 0, self._role)
        self._calls = calls

    def sendable(self, text: str) -> str | None:
        """See `BatchEmbedder.sendable`: the text with its prefix; None for one that is refused or may have to be cut
        into pieces."""
        try:
            check_texts([text])
        except TextRefused:
            return None
        return self._role.prefix + text if self._cutter.pieces(text) == [text] else None

    def tokens(self, text: str) -> int:
        """See `BatchEmbedder.tokens`."""
        return estimated_tokens(self._role.prefix + text)

    def line(self, key: str, text: str) -> bytes:
        """See `BatchEmbedder.line`."""
        request: dict[str, Any] = {
            "output_dimensionality": self._profile.dimensions,
            "content": {"parts": [{"text": text}]},
        }
        if self._role.task_type:
            request["task_type"] = self._role.task_type
        return json.dumps({"key": key, "request": request}).encode() + b"\n"

    def upload(self, file: str, lines: Iterable[bytes]) -> None:
        """See `BatchEmbedder.upload`."""
        data = b"".join(lines)

        def send(client: genai.Client, options: types.HttpOptions) -> types.File:
            config = types.UploadFileConfig(name=file, display_name=file, mime_type="jsonl", http_options=options)
            return client.files.upload(file=io.BytesIO(data), config=config)

        uploaded = self._call(send, RetryPolicy(attempts=1, attempt_seconds=FOR_TRANSFERS.attempt_seconds))
        if uploaded.name != file:
            raise EmbeddingError(f"{self._client.what} stored a file under another name than it was told")

    def create(self, display_name: str, file: str) -> str | None:
        """See `BatchEmbedder.create`. A request that was not answered is looked for before it is repeated."""
        asked = False

        def send(client: genai.Client, options: types.HttpOptions) -> str | None:
            nonlocal asked
            if asked and (found := self._look_for(client, options, display_name)):
                return found
            asked = True
            try:
                job = client.batches.create_embeddings(
                    model=self._profile.model,
                    src=types.EmbeddingsBatchJobSource(file_name=file),
                    config=types.CreateEmbeddingsBatchJobConfig(display_name=display_name, http_options=options),
                )
            except errors.APIError as error:
                if error.code != 429:
                    raise
                return None
            # A job without a name could not be polled; asking again finds it by its display name.
            return job.name or self._look_for(client, options, display_name)

        return self._call(send, self._calls)

    def find(self, display_name: str) -> str | None:
        """See `BatchEmbedder.find`."""
        return self._call(lambda client, options: self._look_for(client, options, display_name), self._calls)

    def _look_for(self, client: genai.Client, options: types.HttpOptions, display_name: str) -> str | None:
        config = types.ListBatchJobsConfig(page_size=_PAGE, http_options=options)
        pager = client.batches.list(config=config)
        for _ in range(_PAGES):
            for job in pager.page:
                if job.display_name == display_name and job.name:
                    return job.name
            try:
                pager.next_page()
            except IndexError:
                return None
        return None

    def get(self, name: str, *, briefly: bool = False) -> RemoteJob | None:
        """See `BatchEmbedder.get`."""

        def send(client: genai.Client, options: types.HttpOptions) -> types.BatchJob | None:
            try:
                return client.batches.get(name=name, config=types.GetBatchJobConfig(http_options=options))
            except errors.APIError as error:
                if error.code != 404:
                    raise
                return None

        job = self._call(send, FOR_GLANCES if briefly else self._calls)
        return None if job is None else _remote_job(name, job)

    def results(self, job: RemoteJob) -> list[tuple[str, BatchAnswer]]:
        """See `BatchEmbedder.results`."""
        file = job.result_file
        if file is None:
            raise EmbeddingError("the job ended without results")

        def send(client: genai.Client, options: types.HttpOptions) -> bytes:
            return client.files.download(file=file, config=types.DownloadFileConfig(http_options=options))

        data = self._call(send, FOR_TRANSFERS)
        return [_line(number, line) for number, line in enumerate(data.splitlines(), 1) if line.strip()]

    def cancel(self, name: str) -> None:
        """See `BatchEmbedder.cancel`."""

        def send(client: genai.Client, options: types.HttpOptions) -> None:
            try:
                client.batches.cancel(name=name, config=types.CancelBatchJobConfig(http_options=options))
            except errors.APIError as error:
                if error.code not in (400, 404, 409):
                    raise

        self._call(send, self._calls)

    def delete(self, name: str) -> None:
        """See `BatchEmbedder.delete`."""

        def send(client: genai.Client, options: types.HttpOptions) -> None:
            _unless_gone(
                lambda: client.batches.delete(name=name, config=types.DeleteBatchJobConfig(http_options=options)),
                (404,),
            )

        self._call(send, self._calls)

    def delete_file(self, file: str) -> None:
        """See `BatchEmbedder.delete_file`."""

        def send(client: genai.Client, options: types.HttpOptions) -> None:
            config = types.DeleteFileConfig(http_options=options)
            _unless_gone(lambda: client.files.delete(name=file, config=config), _GONE)

        self._call(send, self._calls)

    def close(self) -> None:
        """Close the connections to the provider."""
        self._client.close()

    def _call(self, send: Callable[[genai.Client, types.HttpOptions], _Answer], policy: RetryPolicy) -> _Answer:
        _silence_the_sdk()
        # These calls embed nothing and have limits of their own, so they do not pass the gate.
        return call_with_retries(
            lambda seconds: self._client.call(send, seconds),
            what=f"{self._client.what} (batch)",
            gate=OpenGate(),
            items=0,
            tokens=0,
            policy=policy,
        )


def _silence_the_sdk() -> None:
    # Said at each call, and no news: that embedding by batch is experimental, and that a state is unknown. Filters are
    # for the whole process, and each call may run in a thread of its own, so they are not taken back.
    warnings.filterwarnings("ignore", message=r".*create_embeddings\(\) is experimental")
    warnings.filterwarnings("ignore", message=r".* is not a valid JobState")


def _unless_gone(delete: Callable[[], object], gone: Sequence[int]) -> None:
    try:
        delete()
    except errors.APIError as error:
        if error.code not in gone:
            raise


def _remote_job(name: str, job: types.BatchJob) -> RemoteJob:
    word = str(job.state.value if job.state else "UNSPECIFIED")
    # Google's word without its prefix: `RUNNING`.
    known = re.fullmatch(r"(?:JOB_STATE_|BATCH_STATE_)?([A-Z][A-Z_]{2,40})", word)
    state = known[1] if known else "UNKNOWN"
    inline = job.dest.inlined_embed_content_responses if job.dest else None
    if job.dest and inline is None and job.dest.inlined_responses is not None:
        # Where all items failed, the SDK takes them for answers of another kind.
        answers = tuple(BatchAnswer(error=_item_error(item.error)) for item in job.dest.inlined_responses)
    else:
        answers = tuple(_inline_answer(item) for item in inline or ())
    return RemoteJob(
        name=name,
        state=state,
        outcome=_OUTCOMES.get(state, "open"),
        result_file=job.dest.file_name if job.dest else None,
        inline=answers or None,
    )


def _inline_answer(item: types.InlinedEmbedContentResponse) -> BatchAnswer:
    embedding = item.response.embedding if item.response else None
    if embedding is None or not embedding.values:
        return BatchAnswer(error=_item_error(item.error))
    return BatchAnswer(list(embedding.values), item.response.token_count if item.response else None)


def _item_error(error: types.JobError | None) -> str:
    code = f" (code {error.code})" if error and error.code is not None else ""
    return f"refused by the provider{code}"


def _line(number: int, line: bytes) -> tuple[str, BatchAnswer]:
    try:
        value = json.loads(line)
        key = value["key"]
        if not isinstance(key, str):
            raise TypeError
        return key, _answer(value)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        fault = f"line {number} of the results is no answer"
    raise EmbeddingError(fault)  # here, because the error before holds the line


def _answer(value: dict[str, Any]) -> BatchAnswer:
    response = value.get("response") or {}
    values = (response.get("embedding") or {}).get("values")
    if not values:
        code = (value.get("error") or {}).get("code")
        return BatchAnswer(error=f"refused by the provider{f' (code {code})' if isinstance(code, int) else ''}")
    tokens = response.get("tokenCount")
    return BatchAnswer(list(values), int(tokens) if tokens is not None else None)


def build_batches(profile: EmbeddingProfile) -> BatchEmbedder:
    """The batch jobs of a profile whose provider is `google`."""
    return GoogleBatches(profile)
