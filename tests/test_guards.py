"""The plan of the house, kept by tests: what lies above what, and how much one file holds."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from rag_assets.settings import bundled
from tests.support.imports import HOUSE, imports, name_of, python_files

LONGEST = 400  # lines
LONGEST_FUNCTION = 60  # lines, from its `def`
LISTS = {"sql/queries.sql", "sql/schema.sql"}
# What works without Dagster.
BELOW_ASSETS = (
    "rag_assets.chunking", "rag_assets.documents", "rag_assets.embedding", "rag_assets.errors", "rag_assets.ingest",
    "rag_assets.keys", "rag_assets.progress", "rag_assets.retrieval", "rag_assets.settings", "rag_assets.sources",
    "rag_assets.store", "evals",
)  # fmt: skip


@cache
def modules() -> dict[str, Path]:
    return {name_of(path): path for path in python_files("rag_assets", "evals")}


@cache
def arrows() -> dict[str, set[str]]:
    """Which of our modules each of them imports."""
    found = {}
    for name, path in modules().items():
        seen = imports(path)
        # `from package import module` is an arrow to the module alone.
        packages = {one.rpartition(".")[0] for one in seen if one in modules()}
        named = {one.rpartition(".")[0] for one in seen if one not in modules()}
        found[name] = {one for one in seen if one in modules() and (one not in packages or one in named)} - {name}
    return found


def inside(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def crossing(from_: str, *to: str) -> list[str]:
    """The arrows from one package into others."""
    return [
        f"{name} -> {other}"
        for name, others in arrows().items()
        if inside(name, from_)
        for other in sorted(others)
        if inside(other, *to)
    ]


def test_no_two_files_import_each_other() -> None:
    try:
        TopologicalSorter(arrows()).prepare()
    except CycleError as error:
        raise AssertionError(" <- ".join(error.args[1])) from None


def without_dagster() -> list[str]:
    return [name for name in modules() if inside(name, *BELOW_ASSETS) and not inside(name, "evals.assets")]


def test_what_lies_below_the_assets_imports_no_dagster() -> None:
    found = [(name, one) for name in without_dagster() for one in imports(modules()[name]) if inside(one, "dagster")]
    assert found == []


def test_what_lies_below_the_assets_runs_without_dagster() -> None:
    program = (
        f"import importlib, sys\nfor name in {without_dagster()!r}:\n    importlib.import_module(name)\n"
        "print([name for name in sys.modules if name.partition('.')[0] == 'dagster'][:3])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert (run.stdout, run.returncode) == ("[]\n", 0), run.stderr


def test_the_store_knows_nothing_of_evals() -> None:
    assert crossing("rag_assets.store", "evals") == []


def test_only_the_store_knows_sql() -> None:
    outside = [
        name
        for name, others in arrows().items()
        if "rag_assets.store.sql" in others and not inside(name, "rag_assets.store")
    ]
    assert outside == []


def test_evals_leave_sql_to_the_store() -> None:
    files = {name: path for name, path in modules().items() if inside(name, "evals")}
    assert "evals.runner" in files
    for name, path in files.items():
        assert not [one for one in imports(path) if one.startswith(("psycopg", "rag_assets.store.sql"))], name
        attributes = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        assert not attributes & {"execute", "executemany", "cursor", "copy"}, name


def test_assets_know_nothing_of_what_starts_them() -> None:
    assert crossing("rag_assets.assets", "rag_assets.automation") == []
    assert crossing("evals", "rag_assets.automation") == []


def test_no_file_is_longer_than_one_reads() -> None:
    files = [*python_files("rag_assets", "evals", "bench", "tests"), *(HOUSE / "sql").rglob("*.sql")]
    lines = {str(path.relative_to(HOUSE)): len(path.read_text().splitlines()) for path in files}
    assert len(lines) > 300
    assert {name: count for name, count in lines.items() if count > LONGEST and name not in LISTS} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    functions = [
        (f"{path.relative_to(HOUSE)}:{node.name}", (node.end_lineno or 0) - node.lineno + 1)
        for path in python_files("rag_assets", "evals", "bench")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(functions) > 1000
    assert [one for one in functions if one[1] > LONGEST_FUNCTION] == []


def test_every_query_says_in_a_line_what_it_is_for() -> None:
    text = (bundled("sql") / "queries.sql").read_text()
    queries = re.findall(r"^-- (\w+) --\n(.*)$", text, re.MULTILINE)
    assert len(queries) > 100
    assert [name for name, line in queries if not line.startswith("-- ")] == []


def test_nothing_is_imported_from_a_test() -> None:
    files = python_files("tests", "bench", "rag_assets", "evals")
    found = [(str(path), one) for path in files for one in imports(path) if re.search(r"(^|\.)test_\w+", one)]
    assert found == []
