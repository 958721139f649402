"""What a file's name and its declared content type say about it."""

from __future__ import annotations

import re
from email.message import Message
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

NOINDEX_META = "noindex"  # in the metadata of a web page that asks robots not to index it
ORIGIN = "rag:origin"  # in the metadata of a stored record: in which file, and where in it, the record stands


def is_web(uri: str) -> bool:
    """Tell whether `uri` is an http or https address."""
    return uri.lower().startswith(("http://", "https://"))


def suffix(name: str) -> str:
    """Return the suffix of a file name, path or URI, in lower case with its dot, or `""`."""
    path = unquote(urlsplit(name).path) if is_web(name) else name
    path = path.replace("\\", "/")
    last = path.rpartition("/")[2]
    if last in ("", "."):
        return PurePosixPath(path).suffix.lower()
    # A path for each of 100,000 names is a fifth of a scan in which nothing has changed.
    dot = last.rfind(".")
    return last[dot:].lower() if 0 < dot < len(last) - 1 else ""


def is_bare(name: str) -> bool:
    """Tell whether a file's name does not say what kind of file it is: it has no suffix, or one of digits alone."""
    return not is_web(name) and re.fullmatch(r"(\.\d*)?", suffix(name)) is not None


def part_name(file: str, key: str) -> str:
    """Return what a part of a file is called wherever it is named: `z.zip#in.zip#a.pdf`, or the file without a key."""
    return f"{file}#{key}" if key else file


def spoken_key(key: str, place: str) -> str:
    """Return the key of a record as people read it: `line 3` for one that is called after its place, `line:3`."""
    return place if place and key == place.replace(" ", ":") else key


def is_target(value: object) -> bool:
    """Whether it is `"module:attribute"`."""
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value) is not None


def media_type(content_type: str | None) -> str:
    """Return `type/subtype` of a Content-Type header in lower case, or `""`."""
    return (content_type or "").partition(";")[0].strip().lower()


def charset(content_type: str | None) -> str | None:
    """Return the charset parameter of a Content-Type header."""
    if not content_type or ";" not in content_type:
        return None
    message = Message()
    message["Content-Type"] = content_type.replace("\r", " ").replace("\n", " ")
    value = message.get_param("charset")
    return value if isinstance(value, str) else None
