"""Starts runs in processes that have everything loaded already."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

import dagster as dg
from dagster._config import Array, UserConfigSchema
from dagster._core.errors import DagsterLaunchFailedError
from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import ConfigurableClassData, serialize_value

from rag_assets.children import start_python
from rag_assets.runs.lanes import niceness
from rag_assets.runs.processes import PROCESS_TAG, interrupt, is_dead

# macOS ends a forked process that uses its libraries, and Windows has no fork: there runs start as Dagster's do.
_CAN_FORK = sys.platform == "linux"
LOG = "runs.log"  # in the folder of the instance
_MOST_LOG_BYTES = 10 * 2**20
_ANSWER_S = 60.0  # the first run of a fork server waits until that has loaded everything


class WarmRunLauncher(DefaultRunLauncher):
    """Dagster's own launcher, with a fork server in the place of new processes: a run begins in a tenth of a second
    instead of in four.

    A run is told to end by a signal to its process, which any process of this machine can send. Where that is not
    Linux, and for runs that were started otherwise, all is as Dagster does it.

    Attributes:
        preload: the modules that the fork server loads; definitions in them are resolved, too.
    """

    def __init__(self, preload: list[str], inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(inst_data)
        self._preload = preload
        self._server: _ForkServer | None = None
        self._lock = threading.Lock()

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        return {"preload": Array(str)}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> Self:
        return cls(list(config_value["preload"]), inst_data)

    def launch_run(self, context: LaunchRunContext) -> None:
        run = context.dagster_run
        origin = run.job_code_origin
        if not _CAN_FORK or origin is None:
            super().launch_run(context)
            return
        arguments = ExecuteRunArgs(
            job_origin=origin,
            run_id=run.run_id,
            instance_ref=self._instance.get_ref(),
            set_exit_code_on_failure=None,
        )
        with self._lock:
            server = self._current(_generation(context))
            answer = server.ask({"run": run.run_id, "args": serialize_value(arguments), "nice": niceness(run.tags)})
        if "error" in answer:
            text = f"the process of run {run.run_id} could not be started: {answer['error']}"
            raise DagsterLaunchFailedError(text)  # type: ignore[no-untyped-call]

    def _current(self, generation: str) -> _ForkServer:
        """A fork server with the code that the code location has now; runs of an older one go on to their end."""
        if self._server is not None and (self._server.generation != generation or not self._server.is_alive()):
            self._server.leave()
            self._server = None
        if self._server is None:
            self._server = _ForkServer(self._preload, generation, Path(self._instance.root_directory) / LOG)
        return self._server

    def terminate(self, run_id: str) -> bool:
        run = self._instance.get_run_by_id(run_id)
        mark = run.tags.get(PROCESS_TAG) if run else None
        if run is None or run.is_finished or mark is None or GRPC_INFO_TAG in run.tags:
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        self._instance.report_run_canceling(run)
        return interrupt(mark)

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """`FAILED` if the process is known to be gone. Of other hosts, and of runs without a mark, nothing is known,
        and what is unknown is not reported as a failure."""
        mark = run.tags.get(PROCESS_TAG)
        if mark is not None and is_dead(mark):
            return CheckRunHealthResult(WorkerStatus.FAILED, "its process is gone", run_worker_id=mark)
        return CheckRunHealthResult(WorkerStatus.RUNNING, run_worker_id=mark)

    def dispose(self) -> None:
        with self._lock:
            if self._server is not None:
                self._server.leave()
                self._server = None
        super().dispose()


def _generation(context: LaunchRunContext) -> str:
    """Changes when the code location has been reloaded."""
    origin = context.dagster_run.remote_job_origin
    if context.workspace is None or origin is None:
        return ""
    location = context.workspace.get_code_location(origin.repository_origin.code_location_origin.location_name)
    return str(getattr(location, "server_id", ""))


@contextmanager
def _output(path: Path) -> Iterator[BinaryIO]:
    """The file that runs print to, beside Dagster's own; the UI has all that is in it."""
    with path.open("ab") as file:
        if file.tell() > _MOST_LOG_BYTES:
            file.truncate(0)
        yield file


class _ForkServer:
    """The process of `rag_assets/runs/fork_server.py`, and the two pipes to it."""

    def __init__(self, preload: list[str], generation: str, log: Path) -> None:
        self.generation = generation
        with _output(log) as output:
            self._process = start_python(
                "-m",
                "rag_assets.runs.fork_server",
                *preload,
                environment=os.environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
            )
        self._buffer = b""

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: Mapping[str, Any]) -> dict[str, str]:
        """The answer to a request. One that does not come in time makes the server useless: it is killed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            return self._answer(request["run"])
        except (OSError, TimeoutError) as error:
            self._process.kill()
            return {"error": f"the fork server does not answer: {error}"}

    def _answer(self, run: str) -> dict[str, str]:
        assert self._process.stdout is not None
        until = time.monotonic() + _ANSWER_S
        while True:
            line, found, rest = self._buffer.partition(b"\n")
            if found:
                self._buffer = rest
                answer: dict[str, str] = json.loads(line)
                if answer["run"] == run:  # others are late answers, to requests that were given up
                    return answer
                continue
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))
            part = os.read(self._process.stdout.fileno(), 65536) if ready else b""
            if not part:
                raise TimeoutError("it has ended" if ready else f"nothing within {_ANSWER_S:.0f} s")
            self._buffer += part

    def leave(self) -> None:
        """Ask for nothing more: it ends after its last run."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # a request that it did not take
                    pipe.close()
        threading.Thread(target=self._process.wait, name="fork server leaves", daemon=True).start()
