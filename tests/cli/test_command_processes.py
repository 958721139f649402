"""What only shows when `rag` is a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rag_assets.store.server import running_url, stop_server
from tests.support.command_line import WATCHED, Rag

RAG = [sys.executable, "-m", "rag_assets.cli"]


def _run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run([*RAG, *words], env=env, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
def test_the_first_command_ever_sets_everything_up(tmp_path: Path) -> None:
    home = tmp_path / "new home" / "rag"
    try:
        run = _run("tenant", "add", "first", "--bot", "b", "--json", RAG_HOME=str(home))
        assert run.returncode == 0, run.stderr
        assert json.loads(run.stdout) == {"tenant": "first", "bot": "b", "created": True}
        assert running_url(home) is not None
        down = _run("down", RAG_HOME=str(home))
        assert (down.returncode, down.stdout.split(" in ")[0]) == (0, "stopped the database")
        assert running_url(home) is None
        assert json.loads(_run("down", "--json", RAG_HOME=str(home)).stdout)["stopped"] is False
    finally:
        stop_server(home)


@pytest.mark.parametrize(
    "words",
    [
        ("search", "PX-4412", "--tenant", "{tenant}", "--bot", "b"),
        ("sources", "--tenant", "{tenant}", "--bot", "b"),
        ("profile", "list"),
        ("tenant", "list"),
        ("up",),
        ("ingest", "--tenant", "{tenant}", "--bot", "b", "--dry-run"),
    ],
    ids=lambda words: words[0],
)
def test_a_quick_command_does_not_load_dagster(filled: str, words: tuple[str, ...]) -> None:
    words = tuple(word.format(tenant=filled) for word in words)
    run = subprocess.run([sys.executable, "-c", WATCHED, *words], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr.splitlines()[-1] == "dagster loaded: False"


@pytest.mark.parametrize("words", [["--help"], ["eval", "--help"], ["tenant"], ["nonsense"]], ids=" ".join)
def test_a_list_of_commands_imports_none_of_them(words: list[str]) -> None:
    code = (
        "import atexit, pathlib, sys\n"
        "from rag_assets import cli, commands\n"
        "files = {path.stem for path in pathlib.Path(commands.__path__[0]).glob('*.py')}\n"
        "loaded = lambda: sorted(file for file in files if f'rag_assets.commands.{file}' in sys.modules)\n"
        "atexit.register(lambda: print('loaded:', loaded(), file=sys.stderr))\n"
        "cli.app(sys.argv[1:])\n"
    )
    run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert run.stderr.splitlines()[-1] == "loaded: ['lazy', 'listing', 'shell']"


@pytest.mark.slow
def test_an_ingest_prints_one_json_object_and_nothing_else(documents: Path) -> None:
    run = _run("ingest", str(documents), "--tenant", "pure", "--bot", "b", "--profile", "tiny", "--json")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["sources"]["ready"] == 2
    assert run.stdout.count("\n") == 1
    assert "Warning" not in run.stderr


def test_what_a_library_prints_does_not_reach_stdout(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from rag_assets.commands.shell import CommandResult, guarded\n"
        "def run():\n"
        "    print('from python'); os.system('echo from a child')\n"
        "    return CommandResult({'a': 1}, lambda console: None)\n"
        "sys.exit(guarded(run, as_json=True))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, '{"a": 1}\n')
    assert {"from python", "from a child"} <= set(run.stderr.splitlines())


@pytest.mark.slow
def test_an_unforeseen_error_is_one_line_and_its_traceback_is_there_on_demand() -> None:
    url = "postgresql://nobody@127.0.0.1:1/none"
    run = _run("tenant", "list", DATABASE_URL=url)
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.startswith("Error: cannot connect to database none at 127.0.0.1")
    assert "Traceback" not in run.stderr
    assert "Traceback" in _run("tenant", "list", DATABASE_URL=url, RAG_DEBUG="1").stderr
    failure = json.loads(_run("tenant", "list", "--json", DATABASE_URL=url).stdout)
    assert failure["error"]["type"] == "DatabaseUnavailable"


@pytest.mark.slow
def test_what_cannot_be_encoded_is_escaped_and_the_json_still_parses() -> None:
    words = [*RAG, "ingest", b"/no/caf\xe9/\xc3\xbc", "--tenant", "t", "--bot", "b", "--json"]
    for encoding in ("utf-8", "ascii"):
        env = {**os.environ, "PYTHONIOENCODING": encoding}
        run = subprocess.run(words, env=env, capture_output=True, check=False)
        assert run.returncode == 2, run.stderr
        assert r"/no/caf\udce9/ü" in json.loads(run.stdout)["error"]["message"]
        spoken = subprocess.run(words[:-1], env=env, capture_output=True, check=False)
        assert spoken.returncode == 2
        assert rb"/no/caf\udce9/" in spoken.stderr


def test_a_database_url_that_is_none_is_wrong_use() -> None:
    run = _run("tenant", "list", DATABASE_URL="not a url")
    assert run.returncode == 2
    assert "DATABASE_URL is no connection URL" in run.stderr


def test_down_leaves_a_server_alone_that_is_not_ours() -> None:
    run = _run("down", DATABASE_URL="postgresql://somebody@elsewhere/db")
    assert run.returncode == 0
    assert "DATABASE_URL is set" in run.stdout


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_erases_nothing(rag: Rag, filled: str) -> None:
    process = subprocess.Popen(
        [*RAG, "erase", "--tenant", filled],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # A shell that starts the tests in the background has them ignore Ctrl-C, and a child inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    with process:
        assert process.stderr is not None
        while "no way back" not in (line := process.stderr.readline()):
            assert line, "the question was never asked"
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert rag.json("search", "PX-4412", "--tenant", filled, "--bot", "b")["results"]


def test_a_reader_that_leaves_early_is_no_error(filled: str) -> None:
    # `true` is done before the answer comes.
    ask = f"{sys.executable} -m rag_assets.cli sources --tenant {filled} --bot b"
    run = subprocess.run(
        ["bash", "-c", f"{ask} | true; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=False
    )
    assert run.returncode in (0, 1)
    assert run.stderr == ""
