"""A process that has loaded what runs need, and forks one process for each run that it is told of.

To import everything takes seconds of a processor, which a fork does not repeat. Each run still has a process of its
own, so that it can be killed, and a crash ends nothing but itself. Nothing is opened here before a fork: no connection,
no thread of ours. `rag_assets/runs/launcher.py` starts it and speaks to it:

- one JSON object a line on its standard input: `run`, the run's id; `args`, which `dagster api execute_run` takes;
  `nice`, how much the run stands back when processors are scarce;
- one a line on its standard output: `run` and `process`, the mark of the process that executes it now, or `error`.

It ends when its input has, after the last run.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib import import_module

import dagster as dg
from dagster._cli.api import _execute_run_command_body
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import deserialize_value
from dagster._utils import get_run_crash_explanation
from dagster._utils.interrupts import capture_interrupts

from rag_assets.runs.compute_logs import FileComputeLogs
from rag_assets.runs.processes import PROCESS_TAG, this_process

_REAP_EVERY_S = 0.5


def main() -> None:
    """Load the modules that the command line names, then serve."""
    for name in sys.argv[1:]:
        definitions = getattr(import_module(name), "defs", None)
        if isinstance(definitions, dg.Definitions):
            definitions.get_repository_def().get_all_jobs()
    # What is printed goes where errors go: the pipe of answers is ours alone.
    answers = os.dup(1)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, whose owner stops us by closing our input
    gc.collect()
    gc.freeze()  # so that a child's collector does not copy what it shares with us
    work = _Server(answers).serve()
    if work is not None:  # in a child
        work()


class _Server:
    """Forks, and looks after what it has forked. In a child, `serve` returns what the child is to do."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._running: dict[int, str] = {}  # process id -> the arguments of its run
        self._buffer = b""
        self._open = True

    def serve(self) -> Callable[[], None] | None:
        while self._open or self._running:
            ready, _, _ = select.select([0] if self._open else [], [], [], _REAP_EVERY_S if self._running else None)
            for line in self._lines() if ready else ():
                work = self._fork(json.loads(line))
                if work is not None:
                    return work
            work = self._reap()
            if work is not None:
                return work
        return None

    def _lines(self) -> list[bytes]:
        part = os.read(0, 65536)
        self._open = bool(part)
        *lines, self._buffer = (self._buffer + part).split(b"\n")
        return lines

    def _fork(self, request: dict[str, str | int]) -> Callable[[], None] | None:
        run, arguments, nice = str(request["run"]), str(request["args"]), int(request.get("nice", 0))
        try:
            pid = os.fork()
        except OSError as error:
            _tell(self._answers, {"run": run, "error": f"no process could be made: {error}"})
            return None
        if pid == 0:
            return lambda: _execute(run, arguments, nice, self._answers)
        self._running[pid] = arguments
        return None

    def _reap(self) -> Callable[[], None] | None:
        """Take leave of children that have ended; one that crashed has its run reported, by another child."""
        for pid in list(self._running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            arguments, code = self._running.pop(pid), os.waitstatus_to_exitcode(status)
            if code and arguments:
                reporter = os.fork()
                if reporter == 0:
                    return lambda: _report(arguments, code, self._answers)
                self._running[reporter] = ""
        return None


def _tell(answers: int, answer: dict[str, str]) -> None:
    """Short enough to be written at once, beside what other processes write."""
    with suppress(BrokenPipeError):  # whoever asked is gone; the run goes on
        os.write(answers, json.dumps(answer).encode()[:2000] + b"\n")


def _become_a_run() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Whatever it starts must not keep the pipe of requests open.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    FileComputeLogs.are_copied = False


def _execute(run: str, arguments: str, nice: int, answers: int) -> None:
    """Mark the run with this process, say so, and execute it as `dagster api execute_run` does."""
    _become_a_run()
    os.nice(nice)
    with ExitStack() as stack:
        stack.enter_context(capture_interrupts())
        try:
            instance = stack.enter_context(_instance(_arguments(arguments)))
            instance.add_run_tags(run, {PROCESS_TAG: this_process()})
        except Exception as error:  # whatever it was, somebody waits to hear of it
            _tell(answers, {"run": run, "error": f"{type(error).__name__}: {error}"[:500]})
            return
        _tell(answers, {"run": run, "process": this_process()})
        os.close(answers)
        _execute_run_command_body(run, instance, lambda _: None, set_exit_code_on_failure=False)


def _report(arguments: str, code: int, answers: int) -> None:
    """Mark the run of a process that ended before its run did."""
    _become_a_run()
    os.close(answers)
    found = _arguments(arguments)
    with _instance(found) as instance:
        run = instance.get_run_by_id(found.run_id)
        if run is None or run.is_finished:
            return
        told = get_run_crash_explanation(f"Run execution process for {run.run_id}", code)
        if run.status == dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, told)
        else:
            instance.report_run_failed(run, told)


def _arguments(text: str) -> ExecuteRunArgs:
    return deserialize_value(text, ExecuteRunArgs)


def _instance(arguments: ExecuteRunArgs) -> dg.DagsterInstance:
    # Not as Dagster's commands do it, which read a file `.env` of the working folder into the environment.
    reference = arguments.instance_ref
    return dg.DagsterInstance.get() if reference is None else dg.DagsterInstance.from_ref(reference)


if __name__ == "__main__":
    main()
