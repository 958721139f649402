"""What a person types as PATH or URL, made into source roots that can be remembered."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import fsspec

from rag_assets.documents.registry import supported, supported_suffixes
from rag_assets.errors import RagError, UsageError
from rag_assets.sources.local import to_path

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


def resolve_roots(words: Sequence[str]) -> list[str]:
    """Absolute paths and URLs, each once, in the order given.

    Raises:
        UsageError: names the first that does not exist, may not be read, or that nothing here can read.
    """
    return list(dict.fromkeys(_resolve(word) for word in words))


def _resolve(word: str) -> str:
    if not word.strip():
        raise UsageError("a PATH is empty")
    scheme = _SCHEME.match(word)
    if scheme is None:
        return _local(word, Path(os.path.abspath(os.path.expanduser(word))))
    if scheme[1].lower() == "file":
        return _local(word, _file_path(word))
    return _remote(word, scheme[1].lower())


def _file_path(uri: str) -> Path:
    try:
        return to_path(uri)
    except RagError as error:
        raise UsageError(str(error)) from error


def _remote(word: str, scheme: str) -> str:
    if scheme not in {"http", "https", *fsspec.available_protocols()}:
        raise UsageError(f"{word}: nothing here reads addresses that start with {scheme}://")
    if not word[len(scheme) + 3 :].strip("/"):
        raise UsageError(f"{word}: the address names nothing")
    return word


def _local(word: str, path: Path) -> str:
    if not path.exists():
        raise UsageError(f"{word} does not exist (looked for {path})")
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
