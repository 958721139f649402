"""What a person types as PATH or URL, made into source roots that can be remembered."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rag_assets.documents.registry import supported, supported_suffixes
from rag_assets.errors import RagError, UsageError, unknown_path
from rag_assets.sources.addresses import is_local, root_problem
from rag_assets.sources.local import to_path
from rag_assets.sources.secrets import shown

__all__ = ["resolve_roots", "root_problem"]


def resolve_roots(words: Sequence[str]) -> list[str]:
    """Absolute paths and URLs, each once, in the order given.

    Raises:
        UsageError: names the first that does not exist, may not be read, that nothing here can read, or that holds
            a secret.
    """
    return list(dict.fromkeys(_resolve(word) for word in words))


def _resolve(word: str) -> str:
    if not word.strip():
        raise UsageError("a PATH is empty")
    if word.lower().startswith("file:"):
        return _local(word, _file_path(word))
    if is_local(word):
        return _local(word, Path(os.path.abspath(os.path.expanduser(word))))
    problem = root_problem(word)
    if problem:
        raise UsageError(problem)
    return word


def _file_path(uri: str) -> Path:
    try:
        return to_path(uri)
    except RagError as error:
        raise UsageError(str(error)) from error


def _local(word: str, path: Path) -> str:
    if not path.exists():
        raise unknown_path(shown(str(path) if word.lower().startswith("file:") else word))
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        raise UsageError(f"{path} may not be read by this user")
    if not path.is_dir():
        if not path.is_file():
            raise UsageError(f"{path} is neither a folder nor a file")
        if not supported(path.name):
            raise UsageError(f"no parser takes {path}; known endings: {', '.join(supported_suffixes())}")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return path.as_uri()  # a name that is not UTF-8 cannot be stored as text
    return str(path)
