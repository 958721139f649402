"""Files from strangers, each parsed where it can do no harm: a crash, a hang or a flood of memory fails one file.

Every file goes to a worker process that lives on from file to file, has a session of its own, inherits no connection
and no secret, and is replaced when it crashes or exceeds a limit: no format is so plain that no text of it takes hours.
Only a parser that another process cannot import runs here. Safe to use from several threads, and after a fork.

The settings `RAG_PARSE_SECONDS` and `RAG_PARSE_MEMORY_MB` bound what a worker may take for a file. Of the environment
it sees what `plain_environment` lets through, and what `RAG_PARSE_ENV` names.
"""

from __future__ import annotations

import atexit
import functools
import io
import os
import pickle
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any

from rag_assets.children import call_of_main, plain_environment, start_python
from rag_assets.documents import ocr, registry
from rag_assets.documents.building import failed
from rag_assets.documents.formats import BUILTIN_FORMATS, Format
from rag_assets.documents.model import Block, Document, Media, Record
from rag_assets.documents.normalize import normalize
from rag_assets.documents.sniff import CONTAINER_MAGIC
from rag_assets.documents.worker import LENGTHS, READY, RETIRED, ParseTask, Setup
from rag_assets.errors import InvalidArgument, ParserUnavailable, SourceError
from rag_assets.processors import given_processors
from rag_assets.settings import load_settings, read_variable

__all__ = ["close_workers", "parse_file"]

_START_SECONDS = 60.0


def parse_file(data: bytes, name: str, content_type: str | None = None, *, encoding: str | None = None) -> list[Record]:
    """Return the records of one file like `registry.parse`, and a failed one for whatever is wrong with the file.

    `encoding` is that of text which does not say its own.

    Raises:
        InvalidArgument: names the argument that is of the wrong kind.
        UsageError: a setting has a wrong value.
        ParserUnavailable: no worker process could be started; nothing is known about the file.
    """
    _check(data, name, content_type, encoding)
    name = normalize(name)
    try:
        if _runs_here(data, name, content_type):
            return registry.parse(data, name, content_type, encoding)
    except SourceError as error:
        return [failed("", name, str(error))]
    return _pool.parse(data, ParseTask(name, content_type, _limits().seconds, encoding))


def _check(data: object, name: object, content_type: object, encoding: object) -> None:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidArgument(f"data must be bytes, got {type(data).__name__}", "data")
    if not isinstance(name, str):
        raise InvalidArgument(f"name must be a string, got {name!r}", "name")
    if content_type is not None and not isinstance(content_type, str):
        raise InvalidArgument(f"content_type must be a string or None, got {content_type!r}", "content_type")
    if encoding is not None and not isinstance(encoding, str):
        raise InvalidArgument(f"encoding must be a string or None, got {encoding!r}", "encoding")


def close_workers() -> None:
    """End the idle worker processes; the next file starts a new one."""
    _pool.close()


def _runs_here(data: bytes, name: str, content_type: str | None) -> bool:
    if data.startswith(CONTAINER_MAGIC):
        return False  # even to look into one is left to a worker
    chosen = registry.choose(data, name, content_type)
    return not (chosen in BUILTIN_FORMATS or _portable(chosen))


@dataclass(frozen=True)
class _Limits:
    """Seconds and bytes that a file may take, and the further variables that a worker sees."""

    seconds: float
    memory: int
    passed: tuple[str, ...]


def _limits() -> _Limits:
    # To judge all settings takes as long as to parse a small file.
    return _limits_of(*map(read_variable, ("RAG_PARSE_SECONDS", "RAG_PARSE_MEMORY_MB", "RAG_PARSE_ENV")))


@functools.lru_cache(maxsize=16)
def _limits_of(*_: str | None) -> _Limits:
    settings = load_settings()
    return _Limits(settings.parse_seconds, int(settings.parse_memory_mb * 2**20), tuple(settings.parse_env))


class _Died(Exception):
    """A worker that gives no answer, with the reason as a person should read it."""


class _Retired(Exception):
    """A worker that had ended of its own accord before it read the task."""


class _Worker:
    def __init__(self) -> None:
        self.memory = _limits().memory
        self.setup: Setup | None = None
        self.answers = 0
        self.socket, theirs = socket.socketpair()
        try:
            # ResourceWarning and the like of libraries are for their authors.
            self.process = start_python(
                *(
                    "-W",
                    "ignore",
                    *call_of_main("rag_assets.documents.worker", theirs.fileno(), os.getpid(), self.memory),
                ),
                environment=plain_environment(*_limits().passed),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError as error:
            self.socket.close()
            raise ParserUnavailable(f"no parser process could be started: {error}") from error
        finally:
            theirs.close()
        self._await_ready()

    def _await_ready(self) -> None:
        self.socket.settimeout(_START_SECONDS)
        try:
            ready = self.socket.recv(len(READY)) == READY
        except OSError:
            ready = False
        if not ready:
            self.kill()
            raise ParserUnavailable(f"a parser process ended or hung at its start (status {self.process.returncode})")

    def ask(self, task: ParseTask, data: bytes) -> list[Record]:
        """Return the answer; raises _Died or _Retired, after which this worker must not be used again."""
        deadline = time.monotonic() + task.seconds
        try:
            request = pickle.dumps(task)
            self.socket.settimeout(task.seconds)
            self.socket.sendall(LENGTHS.pack(len(request), len(data)) + request)
            self.socket.sendall(data)
            stream = io.BufferedReader(_Answer(self.socket, deadline, self.memory))
            records: list[Record] = _Records(stream).load()
        except TimeoutError as error:
            raise _Died(f"reading it took more than {task.seconds:g} s (RAG_PARSE_SECONDS)") from error
        except (EOFError, ConnectionError) as error:
            raise self._death() from error
        except (pickle.UnpicklingError, OSError, ValueError, TypeError, AttributeError, MemoryError) as error:
            raise _Died(f"the parser process gave no valid answer: {error}") from error
        if not records or not isinstance(records, list) or not all(isinstance(record, Record) for record in records):
            raise _Died("the parser process gave no valid answer")
        self.answers += 1
        return records

    def _death(self) -> Exception:
        try:
            status = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return _Died("the parser process gave no answer")
        if status == RETIRED and self.answers:
            return _Retired()
        if status >= 0:
            return _Died(f"the parser process ended with status {status}")
        number = -status
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return _Died(f"the parser process was ended by {name}")

    def kill(self) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()


class _Answer(io.RawIOBase):
    """The bytes of one answer, within a deadline (`time.monotonic`) and a number of bytes."""

    def __init__(self, source: socket.socket, deadline: float, limit: int) -> None:
        self._source, self._deadline, self._left = source, deadline, limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._source.settimeout(left)
        count = self._source.recv_into(buffer)
        self._left -= count
        if self._left < 0:
            raise ValueError("it is larger than the file's share of memory")
        return count


class _Records(pickle.Unpickler):
    """Unpickles records and nothing else: a file that has taken over a worker gains nothing here."""

    def find_class(self, module: str, name: str) -> Any:
        found = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in (Record, Document, Block, Media)}
        try:
            return found[f"{module}.{name}"]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is no record") from None


@dataclass
class _Pool:
    """Workers: as many at once as there are processors, and the idle ones are used again."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    slots: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(max(2, given_processors())))
    idle: list[_Worker] = field(default_factory=list)
    alive: list[_Worker] = field(default_factory=list)

    def parse(self, data: bytes, task: ParseTask) -> list[Record]:
        with self.slots:
            while True:
                worker = self._take()
                try:
                    records = worker.ask(_prepared(worker, task), data)
                except _Retired:
                    self._drop(worker)
                    continue
                except _Died as error:
                    self._drop(worker)
                    return [failed("", task.name, str(error))]
                except BaseException:
                    self._drop(worker)
                    raise
                with self.lock:
                    self.idle.append(worker)
                return records

    def _take(self) -> _Worker:
        while True:
            with self.lock:
                worker = self.idle.pop() if self.idle else None
            if worker is None:
                break
            if worker.process.poll() is None:
                return worker
            self._drop(worker)
        worker = _Worker()
        with self.lock:
            self.alive.append(worker)
        return worker

    def _drop(self, worker: _Worker) -> None:
        worker.kill()
        with self.lock:
            self.alive.remove(worker)

    def close(self) -> None:
        while True:
            with self.lock:
                if not self.idle:
                    return
                worker = self.idle.pop()
            self._drop(worker)


def _prepared(worker: _Worker, task: ParseTask) -> ParseTask:
    """Return the task with what has been registered here since the worker's last one."""
    setup = Setup(tuple(filter(_portable, registry.added_formats())), ocr.registered())
    if setup == worker.setup:
        return task
    worker.setup = setup
    return replace(task, setup=pickle.dumps(setup))


@functools.cache
def _portable(format_: Format) -> bool:
    """Tell whether another process can use this format: it must be able to import all of it."""
    if not isinstance(format_.parser, str) or getattr(format_.matches, "__module__", "") == "__main__":
        return False
    try:
        pickle.dumps(format_)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


_pool = _Pool()
_inherited: list[_Worker] = []


def _forget_workers() -> None:
    """After a fork the workers are the parent's: close these copies of their sockets, and start others when needed."""
    global _pool
    for worker in _pool.alive:
        worker.socket.close()
    _inherited.extend(_pool.alive)  # else Popen would warn of a process that still runs
    _pool = _Pool()


def _end_workers() -> None:
    for worker in list(_pool.alive):
        worker.kill()


os.register_at_fork(after_in_child=_forget_workers)
atexit.register(_end_workers)
