"""What the store and the evals know of each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import evals
from rag_assets import store


def sources(package: str) -> Iterator[tuple[str, ast.Module]]:
    """Name and syntax tree of every module of the package in this folder."""
    for path in sorted(Path(package).parent.glob("*.py")):
        yield path.name, ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.Module) -> Iterator[str]:
    """Full names of all that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_store_imports_nothing_from_evals() -> None:
    found = [(name, one) for name, tree in sources(store.__file__) for one in imports(tree)]
    assert ("database.py", "psycopg") in found
    assert [one for one in found if one[1].split(".")[0] == "evals"] == []


def test_evals_leave_sql_to_the_store() -> None:
    modules = {name: tree for name, tree in sources(evals.__file__) if name != "__init__.py"}
    assert "runner.py" in modules
    for name, tree in modules.items():
        assert not [one for one in imports(tree) if one.startswith(("psycopg", "rag_assets.store.sql"))], name
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not attributes & {"execute", "executemany", "cursor", "copy"}, name
