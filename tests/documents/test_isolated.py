from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from bench.seeds import SEEDS
from rag_assets.documents import isolated
from rag_assets.documents.isolated import close_workers, parse_file
from rag_assets.documents.registry import parse, register_parser
from rag_assets.errors import ParserUnavailable, UsageError

HERE = Path(__file__).parent
register_parser("hostile", "tests.support.hostile_parsers:parse", suffixes=[".hostile"])


@pytest.fixture(autouse=True)
def few_seconds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAG_PARSE_SECONDS", "20")
    yield
    close_workers()


def outcome(command: str) -> str:
    """The text of a file that makes its parser do something, or why it failed."""
    (record,) = parse_file(command.encode(), "a.hostile")
    return record.document.text if record.document else f"{record.status}: {record.error}"


def worker_pid() -> int:
    return int(outcome("pid").split()[0])


def test_a_file_is_parsed_in_another_process_and_gives_the_same_records() -> None:
    page = b"<!doctype html><title>T</title><h1>One</h1><p>Text of the page"
    assert parse_file(page, "a.html") == parse(page, "a.html")
    pid, session = map(int, outcome("pid").split())
    assert pid != os.getpid()
    assert session == pid
    assert worker_pid() == pid


@pytest.mark.parametrize("name", ["a.txt", "a.py", "a.md", "a.json", "a.csv", "a.rst"])
def test_no_format_is_so_plain_that_the_process_of_a_run_reads_it(name: str) -> None:
    close_workers()
    assert parse_file(SEEDS[name], name)[0].status == "ready"
    assert len(isolated._pool.alive) == 1


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("crash", "SIGSEGV"),
        ("exit 3", "status 3"),
        ("exit 75", "status 75"),
        ("sys.exit", "it asked to exit with 3"),
        ("forge", "no valid answer"),
    ],
)
def test_a_parser_that_ends_its_process_fails_one_file(command: str, reason: str) -> None:
    close_workers()
    assert reason in outcome(command)
    assert outcome("fine") == "fine"
    assert not Path("forged-by-a-parser").exists()


@pytest.mark.parametrize("command", ["sleep 60", "hold-the-lock 60", "half"])
def test_a_parser_that_hangs_is_ended_after_its_time(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome("fine")
    monkeypatch.setenv("RAG_PARSE_SECONDS", "0.5")
    started = time.monotonic()
    assert outcome(command) == "failed: reading it took more than 0.5 s (RAG_PARSE_SECONDS)"
    assert time.monotonic() - started < 50, "it was waited for"
    monkeypatch.setenv("RAG_PARSE_SECONDS", "20")
    assert outcome("fine") == "fine"


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
def test_a_parser_that_eats_memory_fails_and_leaves_the_next_file_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PARSE_MEMORY_MB", "100")
    assert outcome("eat 50") == "50"
    assert "memory" in outcome("eat 150")
    assert outcome("eat 50") == "50"


def test_a_worker_sees_no_secret_and_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    close_workers()
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:secret@host/database")
    monkeypatch.setenv("OCR_MODEL", "small")
    monkeypatch.setenv("RAG_PARSE_ENV", "OCR_MODEL, NOT_SET")
    left, right = socket.socketpair()
    with left, right:
        os.set_inheritable(left.fileno(), True)
        assert len(outcome("files").split()) == 1
        seen = outcome("environment").split("\n")
    assert {"GEMINI_API_KEY", "DATABASE_URL"}.isdisjoint(seen)
    assert {"PATH", "OCR_MODEL"} <= set(seen)


def test_what_libraries_print_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    assert outcome("print") == "print"
    assert capfd.readouterr() == ("", "")


def test_threads_parse_at_once_and_each_gets_its_own_answer() -> None:
    names = [f"file {number}" for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(outcome, names)) == names


def test_a_worker_outlives_the_thread_that_started_it() -> None:
    close_workers()
    pids: list[int] = []
    thread = threading.Thread(target=lambda: pids.append(worker_pid()))
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert pids == [worker_pid()]


def test_a_worker_that_was_killed_between_two_files_costs_no_file() -> None:
    pid = worker_pid()
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)], timeout=0.2)
    assert outcome("fine") == "fine"


def test_a_worker_that_retires_is_replaced_and_the_file_is_read() -> None:
    outcome("fine")
    (worker,) = isolated._pool.idle
    # As after its last job: the socket's other end sees the end of the requests.
    worker.socket.shutdown(socket.SHUT_WR)
    worker.process.wait(timeout=10)
    assert outcome("fine") == "fine"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_uses_workers_of_its_own() -> None:
    before = worker_pid()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, outcome("pid").encode())
        isolated._end_workers()
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reading, 100).split()[0]) != before
    os.close(reading)
    os.close(writing)
    assert worker_pid() == before


@pytest.mark.parametrize(
    "command",
    ["fine", "sleep 60", pytest.param("hold-the-lock 60", marks=pytest.mark.slow)],  # only the kernel ends the last one
)
def test_a_worker_ends_when_its_parent_is_killed(command: str) -> None:
    program = textwrap.dedent(f"""
        import sys, threading
        sys.path.insert(0, {str(HERE)!r})
        from rag_assets.documents.isolated import parse_file
        from rag_assets.documents.registry import register_parser
        register_parser("hostile", "tests.support.hostile_parsers:parse", suffixes=[".hostile"])
        print(parse_file(b"pid", "a.hostile")[0].document.text, flush=True)
        parse_file({command.encode()!r}, "a.hostile")
        threading.Event().wait()
    """)
    environment = {**os.environ, "RAG_PARSE_SECONDS": "2"}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline().split()[0]))
        time.sleep(0.3)
        assert worker.is_running()
        parent.kill()
    gone, _ = psutil.wait_procs([worker], timeout=15)
    assert gone


def test_formats_that_only_this_process_knows_are_parsed_here() -> None:
    def here(data: bytes, name: str, content_type: str | None) -> list[isolated.Record]:
        return [isolated.Record("", name, "no_text", error=str(os.getpid()))]

    register_parser("here", here, suffixes=[".here-in-a-test"])
    assert parse_file(b"x", "a.here-in-a-test")[0].error == str(os.getpid())


def test_a_file_that_no_parser_takes_is_a_failed_record() -> None:
    (record,) = parse_file(b"\x89PNG\r\n\x1a\n\0\0", "a.unknown")
    assert record.status in ("failed", "no_text")
    (record,) = parse_file(b"abc", "a.unknown")
    assert record.status == "failed"
    assert "no parser takes this file" in (record.error or "")


def test_settings_that_are_no_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("soon", "-1", "nan"):
        monkeypatch.setenv("RAG_PARSE_SECONDS", value)
        with pytest.raises(UsageError, match="RAG_PARSE_SECONDS"):
            outcome("fine")


def test_that_no_worker_can_be_started_is_no_fault_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    close_workers()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ParserUnavailable):
        outcome("fine")


def test_a_worker_costs_little_per_file() -> None:
    assert len({worker_pid() for _ in range(100)}) == 1, "a process for each would take a second each"
