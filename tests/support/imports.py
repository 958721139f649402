"""What the files of this repository import, read from their code."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2]


def python_files(*folders: str) -> list[Path]:
    """All but the documents of the bundled tenants, some of which are programs."""
    found = (path for folder in folders for path in (HOUSE / folder).rglob("*.py"))
    return sorted(path for path in found if not path.is_relative_to(HOUSE / "evals/data"))


def name_of(path: Path) -> str:
    parts = path.relative_to(HOUSE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imported_names(path: Path) -> frozenset[str]:
    """Full names of what a file imports, at its top or in a function: for `from m import n`, `m.n`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


@cache
def imports(path: Path) -> frozenset[str]:
    """The same names, and the modules that they are imported from: for `from m import n` both `m.n` and `m`."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return imported_names(path) | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
