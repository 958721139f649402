"""The process that parses files for another one: see `rag_assets.documents.isolated`.

It speaks over one socket: a request is a pickled `ParseTask`, preceded by its length and that of the data, and the
data; an answer is a pickled list of records. It trusts the process that started it, and not the other way round.
"""

from __future__ import annotations

import importlib
import io
import os
import pickle
import re
import signal
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass

from rag_assets.documents import ocr, tools
from rag_assets.documents.building import failed
from rag_assets.documents.formats import Format
from rag_assets.documents.model import Record
from rag_assets.documents.reasons import in_words
from rag_assets.documents.registry import add_registered, parse
from rag_assets.errors import SourceError

LENGTHS = struct.Struct("!QQ")  # bytes of the pickled task, bytes of the data
READY = b"\x06"  # sent once, before the first task
RETIRED = 75  # exit status of a worker that ended of its own accord, between two tasks

_IDLE_SECONDS = 300.0
_MAX_TASKS = 2000  # parser libraries leak
_WATCH_SECONDS = 0.5
# The kernel's own alarm, in case that nobody is there any more to kill a worker that hangs.
_ALARM_GRACE = 5.0


@dataclass(frozen=True)
class Setup:
    """What the other process has registered: further formats, and an OCR engine."""

    formats: tuple[Format, ...]
    engine: object


@dataclass(frozen=True)
class ParseTask:
    """One file to parse. `setup` is a pickled `Setup` where it has changed since the last task."""

    name: str
    content_type: str | None
    seconds: float
    encoding: str | None = None
    setup: bytes | None = None


def main(descriptor: int, parent: int, memory: int) -> None:
    """Answer tasks from the socket `descriptor` until it is closed; `memory` in bytes, 0 for no limit."""
    # A thread may have started this process with signals blocked, and the alarm must not be.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    _limit(memory)
    connection = socket.socket(fileno=descriptor)
    connection.settimeout(_IDLE_SECONDS)
    with connection, connection.makefile("rb") as requests:
        connection.sendall(READY)
        for _ in range(_MAX_TASKS):
            try:
                task, data = _receive(requests)
            except (EOFError, TimeoutError):
                break
            answer = _answer(task, data)
            del data
            connection.sendall(answer)
            if memory and _resident() > memory // 2:
                break
    # Whatever threads and clean-up handlers a library has left: this process owns nothing worth saving.
    os._exit(RETIRED)


def _receive(requests: io.BufferedReader) -> tuple[ParseTask, bytes]:
    task_size, data_size = LENGTHS.unpack(_exactly(requests, LENGTHS.size))
    task: ParseTask = pickle.loads(_exactly(requests, task_size))  # nosec B301: from the process that started this one
    return task, _exactly(requests, data_size)


def _exactly(requests: io.BufferedReader, count: int) -> bytes:
    data = requests.read(count)
    if len(data) < count:
        raise EOFError
    return data


def _answer(task: ParseTask, data: bytes) -> bytes:
    signal.setitimer(signal.ITIMER_REAL, task.seconds + _ALARM_GRACE)
    tools.allow(task.seconds)
    try:
        if task.setup is not None:
            install(pickle.loads(task.setup))  # nosec B301: as above
        return pickle.dumps(parse(data, task.name, task.content_type, task.encoding), protocol=5)
    except SourceError as error:
        return _failure(task, str(error))
    except MemoryError:
        return _failure(task, "reading it takes more memory than a file may take (RAG_PARSE_MEMORY_MB)")
    # Also SystemExit and KeyboardInterrupt: a library that ends the process fails one file.
    except BaseException as error:
        return _failure(task, f"the parser failed: {in_words(error)}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _failure(task: ParseTask, reason: str) -> bytes:
    records: list[Record] = [failed("", task.name, reason)]
    return pickle.dumps(records, protocol=5)


def install(setup: Setup) -> None:
    """Make known what the other process has registered."""
    for added in setup.formats:
        add_registered(added)
    ocr.use(setup.engine)


def _limit(memory: int) -> None:
    """Limit what this process may allocate beyond what it holds already, and forbid core dumps."""
    # Deferred: there is no such module on Windows, where nothing of this module is imported.
    resource = importlib.import_module("resource")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not memory or sys.platform != "linux":
        return
    # Not RLIMIT_AS: libraries reserve address space that they never use.
    _, highest = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _status_kib("VmData") * 1024 + memory
    limit = limit if highest == resource.RLIM_INFINITY else min(limit, highest)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, highest))


def _resident() -> int:
    return _status_kib("VmRSS") * 1024 if sys.platform == "linux" else 0


def _status_kib(field: str) -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        found = re.search(rf"^{field}:\s+(\d+)", status.read(), re.MULTILINE)
    return int(found.group(1)) if found else 0


def _watch(parent: int) -> None:
    """End this process when the one that started it has gone, however that ended."""
    # Not PR_SET_PDEATHSIG: it fires when the thread that started this process ends.
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(RETIRED)
