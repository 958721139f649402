"""What lies in the folder that a command runs in is documents: no process of ours imports it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets.children import import_path, isolated, start_python
from tests.support.hostile_folder import HostileFolder
from tests.support.imports import HOUSE, python_files

CONSOLE_SCRIPT = Path(sys.executable).with_name("rag")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HOUSE), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def hostile(tmp_path: Path) -> HostileFolder:
    return HostileFolder(tmp_path / "documents")


def test_the_folder_is_as_hostile_as_it_has_to_be(hostile: HostileFolder) -> None:
    subprocess.run([sys.executable, "-c", "import json"], cwd=hostile.path, capture_output=True, check=False)
    assert hostile.ran() == ["json"]


def test_a_file_in_it_is_inspected_and_none_of_its_modules_runs(hostile: HostileFolder) -> None:
    (hostile.path / "page.html").write_text("<!doctype html><title>T</title><p>The pump is dry.")
    words = [str(CONSOLE_SCRIPT), "inspect", "page.html", "--json"]
    run = subprocess.run(words, cwd=hostile.path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "The pump is dry." in run.stdout
    assert hostile.ran() == []


GRANDCHILDREN = {
    "a command": "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import json, yaml'], check=True)",
    "a module": "import subprocess, sys; subprocess.run([sys.executable, '-m', 'json.tool', '--help'], check=True)",
    "spawn": (
        "import multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=print)\n"
        "    process.start(); process.join(); assert process.exitcode == 0"
    ),
}


@pytest.mark.parametrize("program", GRANDCHILDREN.values(), ids=GRANDCHILDREN)
def test_what_a_child_starts_imports_none_of_it_either(hostile: HostileFolder, program: str) -> None:
    child = start_python("-c", program, environment=ENVIRONMENT, cwd=hostile.path)
    assert child.wait(timeout=60) == 0
    assert hostile.ran() == []


def test_an_empty_part_of_the_search_path_is_not_the_working_folder() -> None:
    path = os.pathsep.join(["", "/a", "", "lib"])
    assert isolated({"PYTHONPATH": path})["PYTHONPATH"] == os.pathsep.join(["/a", os.path.abspath("lib")])
    assert "PYTHONPATH" not in isolated({"PYTHONPATH": os.pathsep})
    assert isolated({"A": "b"}) == {"A": "b", "PYTHONSAFEPATH": "1"}


def test_nothing_that_a_parser_process_imports_from_comes_before_the_standard_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    found = import_path()
    library = os.path.dirname(os.__file__)
    assert found.index(library) < found.index(str(tmp_path)), "a json.py there would be taken for Python's"
    assert set(map(os.path.abspath, sys.path)) == set(found), "what an application has registered can be imported"


def test_files_that_a_child_makes_are_for_nobody_else(tmp_path: Path) -> None:
    made = tmp_path / "made"
    program = f"import os; os.mkdir({str(made)!r}); open({str(made / 'file')!r}, 'w').close()"
    assert start_python("-c", program, environment=ENVIRONMENT).wait(timeout=60) == 0
    assert [made.stat().st_mode & 0o777, (made / "file").stat().st_mode & 0o777] == [0o700, 0o600]


STARTERS = {
    "subprocess": {"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "os": {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"},
    "sys": {"executable"},
}


def _starting(path: Path) -> Iterator[str]:
    """What a file uses to start processes, or to name the interpreter."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in STARTERS.get(node.value.id, ()) or (
                node.value.id == "os" and node.attr.startswith(("exec", "spawn"))
            ):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            names = [alias.name for alias in node.names]
            yield from (name for name in names if module in STARTERS and name in STARTERS[module])
            yield from (one for one in (module, *names) if one and one.startswith("multiprocessing"))
            yield from (name for name in names if name == "ProcessPoolExecutor")


ELSEWHERE = {
    "rag_assets/documents/supervisor.py": "programs of this system, by absolute paths, from an isolated process",
    "rag_assets/documents/tools.py": "starts that process by rag_assets.children, and names its pipes",
    "rag_assets/runs/fork_server.py": "forks itself, and so looks for nothing anew",
    "rag_assets/store/server_process.py": "PostgreSQL's own programs, and useradd, by names that no folder changes",
}


def test_processes_of_python_are_started_in_one_place() -> None:
    found = {str(path.relative_to(HOUSE)) for path in python_files("rag_assets", "evals") if list(_starting(path))}
    assert found == {"rag_assets/children.py", *ELSEWHERE}


READS_DOTENV = {"dagster._cli.utils", "dagster._core.secrets.env_file", "dotenv", "dagster._daemon.cli"}


def test_no_process_of_ours_takes_its_environment_from_a_file_in_the_working_folder() -> None:
    """It is a document, and a `PYTHONPATH` or an address in it would decide what runs and who gets our keys."""
    found = set()
    for path in python_files("rag_assets", "evals"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = {getattr(node, "module", None), *(alias.name for alias in node.names)}
                found |= {(path.name, name) for name in names if name in READS_DOTENV}
            elif isinstance(node, ast.Constant) and node.value == "dagster._daemon":
                found.add((path.name, node.value))  # started as a program
    assert found == set()
