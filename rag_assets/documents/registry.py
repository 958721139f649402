"""Which parser takes which bytes, and the guarantee that one bad file fails alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rag_assets.documents.building import failed
from rag_assets.documents.formats import BUILTIN_FORMATS, Format, Parser
from rag_assets.documents.model import Record
from rag_assets.documents.names import is_web, media_type, suffix
from rag_assets.documents.normalize import normalize
from rag_assets.documents.version import PARSER_VERSION
from rag_assets.errors import ParseError, UnsupportedFormat

__all__ = ["PARSER_VERSION", "parse", "register", "supported", "supported_suffixes"]

# Servers send these for anything they do not know: a known suffix says more.
_GENERIC_TYPES = frozenset({"", "text/plain", "application/octet-stream", "binary/octet-stream"})
_SNIFFED = 1024  # bytes


@dataclass
class _Registry:
    by_suffix: dict[str, Format] = field(default_factory=dict)
    by_type: dict[str, Format] = field(default_factory=dict)
    by_content: dict[str, Format] = field(default_factory=dict)


_registry = _Registry()


def register(
    name: str,
    parser: Parser | str,
    *,
    suffixes: Iterable[str] = (),
    content_types: Iterable[str] = (),
    matches: Callable[[bytes], bool] | None = None,
) -> None:
    """Add a format, or take over the suffixes and types of an earlier one.

    `parser(data, name, content_type)` returns records and may raise ParseError; given as
    `"module:function"` it is imported on first use. `matches` looks at the first 1,024 bytes (leading
    white space and UTF-8 mark removed) and wins over the declared type and the suffix.
    """
    _add(Format(name, parser, frozenset(suffixes), frozenset(content_types), matches))


def _add(added: Format) -> None:
    _registry.by_suffix.update(dict.fromkeys(added.suffixes, added))
    _registry.by_type.update(dict.fromkeys(added.content_types, added))
    if added.matches:
        _registry.by_content[added.name] = added


def supported(name: str) -> bool:
    """Tell whether a file of this name would be taken, by its suffix alone."""
    return suffix(name) in _registry.by_suffix


def supported_suffixes() -> tuple[str, ...]:
    """Return every suffix that a parser takes, sorted."""
    return tuple(sorted(_registry.by_suffix))


def parse(data: bytes, name: str, content_type: str | None = None) -> list[Record]:
    """Return the records of one file: at least one, and failed ones instead of an exception.

    `name` is a file name, path or URI; `content_type` a Content-Type header, if one came with the bytes.

    Raises:
        UnsupportedFormat: neither content, declared type nor suffix names a known format.
    """
    name = normalize(name)
    chosen = _choose(data, name, content_type)
    if not data.strip(b" \t\r\n\v\f\x00\xef\xbb\xbf"):
        return [Record(key="", name=name, status="no_text", error="the file is empty")]
    try:
        records = chosen.load()(data, name, content_type)
    except ParseError as error:
        return [failed("", name, str(error))]
    # Whatever a parser library raises for one damaged file must not stop the files after it.
    except Exception as error:
        return [failed("", name, f"the {chosen.name} parser failed: {type(error).__name__}: {error}")]
    return records or [Record(key="", name=name, status="no_text", error="the file holds no records")]


def _choose(data: bytes, name: str, content_type: str | None) -> Format:
    head = data[:_SNIFFED].removeprefix(b"\xef\xbb\xbf").lstrip()
    for candidate in _registry.by_content.values():
        if candidate.matches and candidate.matches(head):
            return candidate
    declared, ending = media_type(content_type), suffix(name)
    if declared in _registry.by_type and declared not in _GENERIC_TYPES:
        return _registry.by_type[declared]
    if ending in _registry.by_suffix:
        return _registry.by_suffix[ending]
    if declared == "text/plain" or declared.startswith("text/"):
        return _registry.by_type["text/plain"]
    if is_web(name) and head.startswith(b"<") and not head.startswith(b"<?xml"):
        return _registry.by_type["text/html"]
    raise UnsupportedFormat(
        f"{name}: no parser takes this file (suffix {ending or 'none'}, type {declared or 'not declared'}); "
        f"known suffixes: {', '.join(supported_suffixes())}"
    )


for _format in BUILTIN_FORMATS:
    _add(_format)
