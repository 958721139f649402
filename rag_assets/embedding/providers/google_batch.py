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
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from google import genai
from google.genai import errors, types

from rag_assets.embedding.check import check_texts
from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.protocol import OpenGate
from rag_assets.embedding.providers.google_client import GoogleClient
from rag_assets.embedding.providers.google_texts import Cutter, role_of
from rag_assets.embedding.providers.requests import RetryPolicy, call_with_retries, estimated_tokens
from rag_assets.errors import EmbeddingError, TextRefused

FOR_CALLS = RetryPolicy(deadline_seconds=180, attempts=5, attempt_seconds=30)
FOR_TRANSFERS = RetryPolicy(deadline_seconds=900, attempts=5, attempt_seconds=300)  # files of up to some 60 MB
FOR_GLANCES = RetryPolicy(deadline_seconds=10, attempts=1, attempt_seconds=10)  # a sensor that looks again soon

_PAGE = 100
_PAGES = 50  # of jobs that are looked through for one by its name; Google runs at most 100 at a time
_GONE = (403, 404)  # Google says 403 of a file that does not exist

Outcome = Literal["open", "succeeded", "failed"]
_OUTCOMES: Mapping[str, Outcome] = {
    "SUCCEEDED": "succeeded",
    "PARTIALLY_SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "CANCELLED": "failed",
    "EXPIRED": "failed",
}

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class RemoteJob:
    """A job as the provider shows it. `state` is Google's word without its prefix: `RUNNING`; a state that nobody
    knows leaves the job `open`. `inline` are answers without keys, in the order of the texts."""

    name: str
    display_name: str
    state: str
    result_file: str | None = None
    inline: tuple[Answer, ...] | None = None

    @property
    def outcome(self) -> Outcome:
        return _OUTCOMES.get(self.state, "open")


@dataclass(frozen=True)
class Answer:
    """What came back for one text: a vector, or an error in our words."""

    values: list[float] = field(default_factory=list)
    tokens: int | None = None
    error: str | None = None


class GoogleBatches:
    """The batch jobs of one profile. Safe to use from several threads."""

    def __init__(self, profile: EmbeddingProfile, calls: RetryPolicy = FOR_CALLS) -> None:
        self._profile = profile
        self._client = GoogleClient(profile)
        self._role = role_of(profile, "document")
        self._cutter = Cutter(profile.max_input_tokens or 0, self._role)
        self._calls = calls

    def sendable(self, text: str) -> str | None:
        """The text with its prefix, as a line of a job may hold it; None for one that is refused or may have to be cut
        into pieces: that is for `GoogleEmbedder`."""
        try:
            check_texts([text])
        except TextRefused:
            return None
        return self._role.prefix + text if self._cutter.pieces(text) == [text] else None

    def tokens(self, text: str) -> int:
        """The estimated tokens of a text with its prefix."""
        return estimated_tokens(self._role.prefix + text)

    def line(self, key: str, text: str) -> bytes:
        """One line of a job's file. `text` is as `sendable` returned it."""
        request: dict[str, Any] = {
            "output_dimensionality": self._profile.dimensions,
            "content": {"parts": [{"text": text}]},
        }
        if self._role.task_type:
            request["task_type"] = self._role.task_type
        return json.dumps({"key": key, "request": request}).encode() + b"\n"

    def upload(self, file: str, lines: Iterable[bytes]) -> None:
        """Upload the lines as the file of this name (`files/` and at most 40 lower-case letters, digits and dashes).

        It is tried once: where it fails, take another name, because a part of the first may be there.

        Raises:
            ProviderUnavailable, ProviderRefused, EmbeddingError: the file is not to be used.
        """
        data = b"".join(lines)

        def send(client: genai.Client, options: types.HttpOptions) -> types.File:
            config = types.UploadFileConfig(name=file, display_name=file, mime_type="jsonl", http_options=options)
            return client.files.upload(file=io.BytesIO(data), config=config)

        uploaded = self._call(send, RetryPolicy(attempts=1, attempt_seconds=FOR_TRANSFERS.attempt_seconds))
        if uploaded.name != file:
            raise EmbeddingError(f"{self._client.what} stored a file under another name than it was told")

    def create(self, display_name: str, file: str) -> str | None:
        """Make the job of an uploaded file and return its name; None where the queue of the account is full.

        A request that was not answered is looked for before it is repeated.

        Raises:
            ProviderUnavailable: nobody knows whether there is a job: look for it with `find` later.
            EmbeddingError: there is none.
        """
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
        """The name of the job with this display name, or None."""
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

    def get(self, name: str, policy: RetryPolicy | None = None) -> RemoteJob | None:
        """The job as it is now, or None if there is none of this name."""

        def send(client: genai.Client, options: types.HttpOptions) -> types.BatchJob | None:
            try:
                return client.batches.get(name=name, config=types.GetBatchJobConfig(http_options=options))
            except errors.APIError as error:
                if error.code != 404:
                    raise
                return None

        job = self._call(send, policy or self._calls)
        return None if job is None else _remote_job(name, job)

    def results(self, job: RemoteJob) -> list[tuple[str, Answer]]:
        """The key and the answer of each line of the result file, in the file's order. Nothing is checked but the
        form.

        Raises:
            EmbeddingError: a line is not what an answer looks like, or there is no file.
        """
        file = job.result_file
        if file is None:
            raise EmbeddingError("the job ended without results")

        def send(client: genai.Client, options: types.HttpOptions) -> bytes:
            return client.files.download(file=file, config=types.DownloadFileConfig(http_options=options))

        data = self._call(send, FOR_TRANSFERS)
        return [_line(number, line) for number, line in enumerate(data.splitlines(), 1) if line.strip()]

    def cancel(self, name: str) -> None:
        """Ask that the job be stopped; one that has ended or is gone is left as it is."""

        def send(client: genai.Client, options: types.HttpOptions) -> None:
            try:
                client.batches.cancel(name=name, config=types.CancelBatchJobConfig(http_options=options))
            except errors.APIError as error:
                if error.code not in (400, 404, 409):
                    raise

        self._call(send, self._calls)

    def delete(self, name: str) -> None:
        """Delete the job at the provider; one that is gone is no error."""

        def send(client: genai.Client, options: types.HttpOptions) -> None:
            _unless_gone(
                lambda: client.batches.delete(name=name, config=types.DeleteBatchJobConfig(http_options=options)),
                (404,),
            )

        self._call(send, self._calls)

    def delete_file(self, file: str) -> None:
        """Delete a file at the provider; one that is gone is no error."""

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
    known = re.fullmatch(r"(?:JOB_STATE_|BATCH_STATE_)?([A-Z][A-Z_]{2,40})", word)
    inline = job.dest.inlined_embed_content_responses if job.dest else None
    if job.dest and inline is None and job.dest.inlined_responses is not None:
        # Where all items failed, the SDK takes them for answers of another kind.
        answers = tuple(Answer(error=_item_error(item.error)) for item in job.dest.inlined_responses)
    else:
        answers = tuple(_inline_answer(item) for item in inline or ())
    return RemoteJob(
        name=name,
        display_name=job.display_name or "",
        state=known[1] if known else "UNKNOWN",
        result_file=job.dest.file_name if job.dest else None,
        inline=answers or None,
    )


def _inline_answer(item: types.InlinedEmbedContentResponse) -> Answer:
    embedding = item.response.embedding if item.response else None
    if embedding is None or not embedding.values:
        return Answer(error=_item_error(item.error))
    return Answer(list(embedding.values), item.response.token_count if item.response else None)


def _item_error(error: types.JobError | None) -> str:
    code = f" (code {error.code})" if error and error.code is not None else ""
    return f"refused by the provider{code}"


def _line(number: int, line: bytes) -> tuple[str, Answer]:
    try:
        value = json.loads(line)
        key = value["key"]
        if not isinstance(key, str):
            raise TypeError
        return key, _answer(value)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        fault = f"line {number} of the results is no answer"
    raise EmbeddingError(fault)  # here, because the error before holds the line


def _answer(value: dict[str, Any]) -> Answer:
    response = value.get("response") or {}
    values = (response.get("embedding") or {}).get("values")
    if not values:
        code = (value.get("error") or {}).get("code")
        return Answer(error=f"refused by the provider{f' (code {code})' if isinstance(code, int) else ''}")
    tokens = response.get("tokenCount")
    return Answer(list(values), int(tokens) if tokens is not None else None)
