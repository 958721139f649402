"""Ctrl-C, as a terminal sends it to a command and its processes: exit code 130, a line that says how to go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg
import pytest

from rag_assets.commands.shell import INTERRUPTED, guarded, resumable
from rag_assets.errors import Interrupted, was_interrupted
from tests.cli.conftest import PROFILE
from tests.support.command_line import Rag
from tests.support.labelled_world import FINE, labelled_bot, write_collection
from tests.support.signals import hear_ctrl_c
from tests.support.web_site import Page, running_site


def interrupted(words: Sequence[str], busy: Callable[[], bool]) -> subprocess.CompletedProcess[str]:
    """A command in a process group of its own that is interrupted once it is `busy`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rag_assets.cli", *words],
        env={**os.environ, "RAG_ALLOW_PRIVATE_URLS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=hear_ctrl_c,
    )  # fmt: skip
    deadline = time.monotonic() + 90
    while not busy() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.mark.slow  # processes of their own
@pytest.mark.parametrize("as_json", [False, True])
def test_an_ingest_that_is_interrupted_in_a_step_says_that_it_can_go_on(
    documents: Path, tmp_path: Path, as_json: bool
) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def slow() -> Page:
        reached.set()
        go_on.wait(60)
        return Page(b"<p>late</p>")

    words = ["ingest", "--tenant", f"stopped-{as_json}".lower(), "--bot", "b", "--profile", PROFILE]
    with running_site() as site:
        site.pages["/slow.html"] = slow
        try:
            done = interrupted(
                [*words, str(documents), f"{site.url}/slow.html", *(["--json"] if as_json else [])], reached.is_set
            )
        finally:
            go_on.set()
    assert done.returncode == INTERRUPTED, done.stderr
    assert "what was read is kept: run it again" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Dagster" not in done.stderr
    if as_json:
        assert json.loads(done.stdout)["error"]["type"] == "Interrupted"
    else:
        assert done.stdout == ""


@pytest.mark.slow  # processes of their own
@pytest.mark.parametrize("command", ["run", "gate"])
def test_an_evaluation_that_is_interrupted_says_that_nothing_was_recorded(
    environment: None, tmp_path: Path, command: str
) -> None:
    from rag_assets.commands.session import ready_database

    tenant = f"stopped-{command}"
    with ready_database() as database:
        labelled_bot(database, tenant, folder := write_collection(tmp_path / "set"))
        url = database.url
        with (folder / "queries.jsonl").open("a") as queries, (folder / "qrels" / "test.tsv").open("a") as labels:
            for number in range(20_000):
                queries.write(json.dumps({"_id": f"more{number}", "text": f"word{number} other"}) + "\n")
                labels.write(f"more{number}\td1\t1\n")
        from evals.runner import import_set

        import_set(database, tenant, "b", folder)

    def busy() -> bool:
        with psycopg.connect(url) as connection:
            return bool(
                connection.execute(
                    "SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%rag.search_space(%' "
                    "AND pid <> pg_backend_pid()"
                ).fetchall()
            )

    words = ["eval", command, "--tenant", tenant, "--bot", "b", "--mode", "lexical"]
    done = interrupted([*words, *(["--candidate", FINE] if command == "gate" else [])], busy)
    assert done.returncode == INTERRUPTED, done.stderr
    assert "is not recorded: run it again" in done.stderr
    assert "Traceback" not in done.stderr


class DagsterExecutionInterruptedError(BaseException):
    """As Dagster's own, which is no Exception."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, DagsterExecutionInterruptedError])
@pytest.mark.parametrize("wrapped", [False, True])
def test_an_interrupt_is_one_however_it_comes_out(
    kind: type[BaseException], wrapped: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        with resumable("all of it is kept"):
            try:
                raise kind
            except BaseException as error:
                if wrapped:
                    raise ValueError("what fails while it is stopped") from error
                raise

    assert guarded(work) == INTERRUPTED
    assert "Interrupted; all of it is kept: run it again" in capsys.readouterr().err
    assert guarded(work, as_json=True) == INTERRUPTED
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "Interrupted"


@pytest.mark.parametrize("as_json", [False, True])
def test_what_an_interrupt_says_comes_out_of_a_command(
    rag: Rag, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def stopped(json: bool = False) -> None:
        with resumable("all of it is kept"):
            raise KeyboardInterrupt

    monkeypatch.setattr("rag_assets.commands.server.down", stopped)
    done = rag("down", *(["--json"] if as_json else []), code=INTERRUPTED)
    assert "Interrupted; all of it is kept: run it again" in done.stderr
    assert (done.stdout != "") == as_json


def test_other_errors_are_no_interrupts() -> None:
    assert not was_interrupted(ValueError("x"))
    with pytest.raises(SystemExit):
        guarded(sys.exit)


def test_errors_that_lead_in_a_circle_are_no_interrupts() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__context__ = other, one
    assert not was_interrupted(one)


def test_an_interrupt_that_falls_into_a_callback_is_heard_all_the_same() -> None:
    class Callback:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    def work() -> None:
        with resumable("what was read is kept"):
            Callback()
            time.sleep(5)

    before = sys.unraisablehook
    with pytest.raises(Interrupted, match="kept"):
        work()
    assert sys.unraisablehook is before
