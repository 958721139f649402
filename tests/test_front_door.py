"""What `import rag_assets` promises: every name is there, typed, and costs nothing until it is used."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import evals
import rag_assets
from rag_assets import errors

SOURCE = Path(rag_assets.__file__)


def in_a_new_process(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=SOURCE.parents[1])


def test_every_name_of_the_front_door_is_there_and_all_are_listed() -> None:
    assert rag_assets.__all__ == sorted(rag_assets.__all__), "in the order of the alphabet, capitals first"
    assert all(getattr(rag_assets, name) is not None for name in rag_assets.__all__)
    assert set(rag_assets.__all__) <= set(dir(rag_assets))


def test_what_type_checkers_see_is_what_is_there() -> None:
    block, _ = [node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If)]
    seen = {
        alias.asname or alias.name
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == set(rag_assets.__all__)


def test_every_error_is_at_the_front_door() -> None:
    ours = {name for name, one in vars(errors).items() if inspect.isclass(one) and issubclass(one, errors.RagError)}
    assert ours <= set(rag_assets.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_like_it"):
        rag_assets.nothing_like_it  # noqa: B018


def test_importing_the_package_loads_nothing_of_it_and_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import rag_assets; print(sorted(set(sys.modules) - before))"
    assert in_a_new_process("-c", code).stdout.strip() == "['rag_assets']"


@pytest.mark.parametrize("first", ["", "import rag_assets.ingest.run; "], ids=["before", "after"])
def test_ingest_can_be_called_whether_its_package_was_imported_or_not(first: str) -> None:
    code = f"{first}import rag_assets as rag; rag.ingest(rag.Database('postgresql://x'), 'a', 'b', roots=['/nowhere'])"
    assert "UnknownPath: no file or folder '/nowhere'" in in_a_new_process("-c", code).stderr


def test_nothing_behind_the_front_door_loads_dagster() -> None:
    names = "import sys, rag_assets as rag; [getattr(rag, name) for name in rag.__all__]"
    assert in_a_new_process("-c", f"{names}; print('dagster' in sys.modules)").stdout.strip() == "False"


def test_both_packages_say_that_they_are_typed() -> None:
    for package in (rag_assets, evals):
        assert Path(str(package.__file__)).with_name("py.typed").exists()


@pytest.mark.slow
def test_a_program_of_a_user_is_checked_against_our_types(tmp_path: Path) -> None:
    program = tmp_path / "application.py"
    program.write_text(
        "import rag_assets as rag\n"
        "database = rag.Database.from_settings()\n"
        "retriever: rag.Retriever = rag.HybridRetriever(database)\n"
        "scope: rag.RetrievalScope = rag.open_scope(database, tenant='a', bot='b')\n"
        "report: rag.IngestReport = rag.ingest(database, 'a', 'b', roots=['x'])\n"
        "reveal_type(retriever.search('x', scope)[0].score)\n"
        "rag.HybridRetriever(database, scope.profile)\n"
        "rag.HybridRetreiver(database)\n"
    )
    run = in_a_new_process("-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(program))
    refused = [line for line in run.stdout.splitlines() if "application.py" in line and "error" in line]
    assert 'Revealed type is "builtins.float"' in run.stdout or 'Revealed type is "float"' in run.stdout, run.stdout
    assert refused, "a retriever takes no profile, and a name that is not there is none"
    assert {line.split("application.py:")[1][0] for line in refused} == {"7", "8"}, run.stdout
