"""The batch part of the stand-in for Google's embedding API: files and jobs, which end when a test says so.

A job's answers are those of the synchronous part, under the keys of its file, until a test changes them.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.google_server import Behaviour, GoogleServer, Reply, Route, google_server, vector_of

Line = dict[str, Any]
Change = Callable[[list[Line]], list[Line]]


@dataclass
class BatchJob:
    """A job as the provider has it."""

    name: str
    display_name: str
    model: str
    requests: list[Line]
    state: str = "BATCH_STATE_PENDING"
    output: dict[str, Any] | None = None

    @property
    def texts(self) -> list[str]:
        return [_text(line) for line in self.requests]

    def shown(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "displayName": self.display_name, "model": self.model, "state": self.state,
            "createTime": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        # Google names an error beside the metadata, and the SDK loses it.
        shown: dict[str, Any] = {"name": self.name, "metadata": metadata}
        if self.output:
            metadata["output"] = self.output
        if self.state == "BATCH_STATE_FAILED":
            shown["error"] = {"code": 3, "message": "stand-in: the file is at fault"}
        return shown


def _text(line: Line) -> str:
    return "".join(part["text"] for part in line["request"]["content"]["parts"])


def right_line(line: Line) -> Line:
    """The answer to one line of a job."""
    values = vector_of(_text(line), line["request"]["output_dimensionality"]).tolist()
    tokens = len(_text(line).split())
    return {"key": line["key"], "response": {"tokenCount": str(tokens), "embedding": {"values": values}}}


@dataclass
class Batches:
    """Files and jobs. `creations` are the behaviours of the next requests to make a job; `uploads` likewise."""

    google: GoogleServer
    files: dict[str, bytes] = field(default_factory=dict)
    jobs: dict[str, BatchJob] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    creations: list[Behaviour] = field(default_factory=list)
    uploads: list[Behaviour] = field(default_factory=list)
    page_size: int = 100

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self.numbers = itertools.count(1)

    @property
    def open(self) -> list[BatchJob]:
        return [job for job in self.jobs.values() if job.output is None and job.state in _OPEN]

    def finish(self, change: Change = lambda lines: lines, state: str = "BATCH_STATE_SUCCEEDED") -> None:
        """End all open jobs with result files; `change` is applied to the lines of each."""
        for job in self.open:
            self.google.paid.update(job.texts)
            name = f"files/batch-{job.name.removeprefix('batches/')}"
            lines = change([right_line(line) for line in job.requests])
            self.files[name] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            job.state, job.output = state, {"responsesFile": name}

    def finish_inline(self, change: Change = lambda lines: lines) -> None:
        """End all open jobs with answers that carry no keys."""
        for job in self.open:
            self.google.paid.update(job.texts)
            lines = change([right_line(line) for line in job.requests])
            answers = [{name: value for name, value in line.items() if name != "key"} for line in lines]
            job.state, job.output = "BATCH_STATE_SUCCEEDED", {"inlinedResponses": {"inlinedResponses": answers}}

    def end(self, state: str) -> None:
        """Let all open jobs show this state, without results."""
        for job in self.open:
            job.state = state

    def make(self, reply: Reply) -> BatchJob:
        """Make a job, whatever becomes of the answer."""
        batch = reply.arrived.body["batch"]
        file = batch["inputConfig"]["fileName" if "fileName" in batch["inputConfig"] else "file_name"]
        model = re.sub(r".*/models/([^:]+):.*", r"models/\1", reply.arrived.path)
        requests = [json.loads(line) for line in self.files[file].splitlines()]
        with self.lock:
            job = BatchJob(f"batches/{next(self.numbers)}", batch["displayName"], model, requests)
            self.jobs[job.name] = job
        return job

    def routes(self) -> list[Route]:
        return [
            ("POST", r"/upload/v1beta/files", self._start_upload),
            ("POST", r"/upload-session/.*", self._upload),
            ("GET", r"/v1beta/files/[^:]+:download.*", self._download),
            ("DELETE", r"/v1beta/files/[^:]+", self._delete_file),
            ("POST", r"/v1beta/models/[^:]+:asyncBatchEmbedContent", self._create),
            ("GET", r"/v1beta/batches(\?.*)?", self._list),
            ("GET", r"/v1beta/batches/[^:?]+", self._get),
            ("POST", r"/v1beta/batches/[^:]+:cancel", self._cancel),
            ("DELETE", r"/v1beta/batches/[^:]+", self._delete),
        ]

    def _start_upload(self, reply: Reply) -> None:
        if self.uploads:
            return self.uploads.pop(0)(reply)
        name = reply.arrived.body["file"]["name"]
        if name in self.files:
            return _error(reply, 409, "ALREADY_EXISTS")
        headers = {"x-goog-upload-url": f"{self.google.url}/upload-session/{name}", "x-goog-upload-status": "active"}
        reply.json({}, headers=headers)

    def _upload(self, reply: Reply) -> None:
        name = reply.arrived.path.removeprefix("/upload-session/")
        body = reply.arrived.body
        # One line alone is a JSON document, which the server has decoded.
        self.files[name] = body if isinstance(body, bytes) else json.dumps(body).encode()
        file = {"name": name, "mimeType": "jsonl", "state": "ACTIVE"}
        reply.json({"file": file}, headers={"x-goog-upload-status": "final"})

    def _download(self, reply: Reply) -> None:
        found = re.fullmatch(r"/v1beta/(files/[^:]+):download.*", reply.arrived.path)
        assert found
        if found[1] not in self.files:
            return _error(reply, 403, "PERMISSION_DENIED")
        reply.raw(self.files[found[1]])

    def _delete_file(self, reply: Reply) -> None:
        name = reply.arrived.path.removeprefix("/v1beta/")
        if self.files.pop(name, None) is None:
            return _error(reply, 403, "PERMISSION_DENIED")
        self.deleted.append(name)
        reply.json({})

    def _create(self, reply: Reply) -> None:
        if self.creations:
            return self.creations.pop(0)(reply)
        reply.json(self.make(reply).shown())

    def _list(self, reply: Reply) -> None:
        jobs = list(self.jobs.values())
        found = re.search(r"pageToken=(\d+)", reply.arrived.path)
        start = int(found[1]) if found else 0
        body: dict[str, Any] = {"operations": [job.shown() for job in jobs[start : start + self.page_size]]}
        if start + self.page_size < len(jobs):
            body["nextPageToken"] = str(start + self.page_size)
        reply.json(body)

    def _get(self, reply: Reply) -> None:
        job = self.jobs.get(reply.arrived.path.removeprefix("/v1beta/"))
        reply.json(job.shown()) if job else _error(reply, 404, "NOT_FOUND")

    def _cancel(self, reply: Reply) -> None:
        name = reply.arrived.path.removeprefix("/v1beta/").removesuffix(":cancel")
        self.cancelled.append(name)
        self.jobs[name].state = "BATCH_STATE_CANCELLED"
        reply.json({})

    def _delete(self, reply: Reply) -> None:
        name = reply.arrived.path.removeprefix("/v1beta/")
        if self.jobs.pop(name, None) is None:
            return _error(reply, 404, "NOT_FOUND")
        self.deleted.append(name)
        reply.json({})


_OPEN = ("BATCH_STATE_PENDING", "BATCH_STATE_RUNNING")


def _error(reply: Reply, status: int, name: str) -> None:
    reply.json({"error": {"code": status, "status": name, "message": "stand-in"}}, status)


@contextmanager
def google_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Batches]:
    """Run the stand-in with its batch part, and point the environment to it."""
    with google_server(monkeypatch) as google:
        batches = Batches(google)
        google.routes[:0] = batches.routes()
        yield batches
