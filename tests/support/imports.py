"""What the files of this repository import, read from their code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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
def imports(path: Path) -> frozenset[str]:
    """What a file imports, at its top or in a function: modules, and for `from m import n` both `m.n` and `m`."""
    return frozenset(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
                yield node.module or ""
