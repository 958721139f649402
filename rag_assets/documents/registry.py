"""Which parser takes which bytes, and the guarantee that one bad file fails alone.

`parse` runs the parser here. `rag_assets.documents.isolated` runs it in a process of its own where the file
could crash or hang this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rag_assets.documents.building import failed
from rag_assets.documents.containers import container_format
from rag_assets.documents.decoding import reading
from rag_assets.documents.formats import BUILTIN_FORMATS, Format, Parser
from rag_assets.documents.given import checked
from rag_assets.documents.misnamed import textual_kind
from rag_assets.documents.model import Record
from rag_assets.documents.names import charset, is_bare, is_target, is_web, media_type, suffix
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.text import CODE_NAMES
from rag_assets.documents.quality import refuse_inflated, with_quality
from rag_assets.documents.reasons import in_words
from rag_assets.documents.sniff import CONTAINER_MAGIC, binary_kind, media_kind
from rag_assets.documents.version import PARSER_VERSION
from rag_assets.errors import InvalidArgument, ParseError, UnsupportedFormat

__all__ = ["PARSER_VERSION", "added_formats", "choose", "parse", "register_parser", "supported", "supported_suffixes"]

# Servers send these for anything they do not know: a known suffix says more.
_GENERIC_TYPES = frozenset({"", "text/plain", "application/octet-stream", "binary/octet-stream"})
_SNIFFED = 1024  # bytes
_BLANK = b" \t\r\n\v\f\x00\xef\xbb\xbf"


@dataclass
class _Registry:
    by_name: dict[str, Format] = field(default_factory=dict)
    by_suffix: dict[str, Format] = field(default_factory=dict)
    by_type: dict[str, Format] = field(default_factory=dict)
    by_content: dict[str, Format] = field(default_factory=dict)
    added: list[Format] = field(default_factory=list)


_registry = _Registry()


def register_parser(
    name: str,
    parser: Parser | str,
    *,
    suffixes: Iterable[str] = (),
    content_types: Iterable[str] = (),
    matches: Callable[[bytes], bool] | None = None,
) -> None:
    """Add a format, or take over the suffixes and types of an earlier one.

    `parser(data, name, content_type)` returns records and may raise ParseError. Given as `"module:function"`
    it is imported on first use and isolated like the built-in ones (see `isolated.py`); given as a function it
    always runs in the process that registered it. `matches` looks at the first 1,024 bytes (leading white
    space and UTF-8 mark removed) and wins over the declared type and the suffix.

    A parser is known to the process that registers it. Every one that ingests has to: files of its suffixes are not
    read where nobody has registered it, and what was read of them is kept.

    Raises:
        InvalidArgument: names the argument that could never work.
    """
    suffixes, content_types = _words(suffixes, "suffixes"), _words(content_types, "content_types")
    if not isinstance(name, str) or not name.strip():
        raise InvalidArgument(f"name must be a string that names the format, got {name!r}", "name")
    if not callable(parser) and not is_target(parser):
        raise InvalidArgument(f'parser must be callable or "module:function", got {parser!r}', "parser")
    if matches is not None and not callable(matches):
        raise InvalidArgument(f"matches must be callable, got {matches!r}", "matches")
    for one in suffixes:
        if not re.fullmatch(r"\.[^\s./]+", one) or one != one.lower():
            raise InvalidArgument(f"suffixes: {one!r} is none; write it as .txt, in lower case", "suffixes")
    for one in content_types:
        if not re.fullmatch(r"[^\s/;]+/[^\s/;]+", one) or one != one.lower():
            raise InvalidArgument(f"content_types: {one!r} is none; write it as text/plain", "content_types")
    if not suffixes and not content_types and matches is None:
        raise InvalidArgument("suffixes, content_types or matches has to say which files it takes", "suffixes")
    add_registered(Format(name, parser, frozenset(suffixes), frozenset(content_types), matches))


def _words(words: object, argument: str) -> list[str]:
    if isinstance(words, str) or not isinstance(words, Iterable):
        raise InvalidArgument(f"{argument} must be a list of strings, got {words!r}", argument)
    listed = list(words)
    if not all(isinstance(word, str) for word in listed):
        raise InvalidArgument(f"{argument} must be a list of strings, got {words!r}", argument)
    return listed


def add_registered(added: Format) -> None:
    """Make a format known that somebody has registered, here or in the process that started this one."""
    add(added)
    _registry.added.append(added)


def add(added: Format) -> None:
    """Make a format known to `parse`."""
    _registry.by_name[added.name] = added
    _registry.by_suffix.update(dict.fromkeys(added.suffixes, added))
    _registry.by_type.update(dict.fromkeys(added.content_types, added))
    if added.matches:
        _registry.by_content[added.name] = added


def added_formats() -> tuple[Format, ...]:
    """Return what has been registered, in order."""
    return tuple(_registry.added)


def supported(name: str) -> bool:
    """Tell whether a file of this name would be taken, by its name alone. One that does not say its kind is: only its
    content tells."""
    return suffix(name) in _registry.by_suffix or is_bare(name) or _is_named_code(name)


def _is_named_code(name: str) -> bool:
    base = name.replace("\\", "/").rpartition("/")[2]
    return not is_web(name) and base.partition(".")[0].lower() in CODE_NAMES


def supported_suffixes() -> tuple[str, ...]:
    """Return every suffix that a parser takes, sorted."""
    return tuple(sorted(_registry.by_suffix))


def parse(data: bytes, name: str, content_type: str | None = None, encoding: str | None = None) -> list[Record]:
    """Return the records of one file: at least one, and failed ones instead of an exception.

    `name` is a file name, path or URI; `content_type` a Content-Type header, if one came with the bytes; `encoding`
    that of text which does not say its own.
    The parser runs in this process: see `isolated.parse_file` for files from strangers.

    Raises:
        UnsupportedFormat: neither content, declared type nor suffix names a known format.
    """
    name = normalize(name)
    chosen = choose(data, name, content_type)
    if not data[:_SNIFFED].strip(_BLANK) and not data.strip(_BLANK):
        return [Record(key="", name=name, status="no_text", error="the file is empty")]
    kind = binary_kind(data) if chosen.textual else None
    if kind:
        return [_not_text(name, f"it is {kind}, not {chosen.name}")]
    try:
        with reading(encoding) as read:
            if chosen in _registry.added:
                records = checked(chosen.load()(data, name, _with_charset(content_type, read.stated)), chosen.name)
            else:
                records = chosen.load()(data, name, content_type)
        refuse_inflated(records, len(data))
    except ParseError as error:
        return [_not_text(name, str(error)) if chosen.name == "text" else failed("", name, str(error))]
    except MemoryError:
        return [
            failed("", name, f"the {chosen.name} parser needs more memory than a file may take (RAG_PARSE_MEMORY_MB)")
        ]
    # Whatever a parser library raises for one damaged file must not stop the files after it.
    except (Exception, SystemExit) as error:
        return [failed("", name, f"the {chosen.name} parser failed: {in_words(error)}")]
    if not records:
        return [Record(key="", name=name, status="no_text", error="the file holds no records")]
    return [with_quality(record, len(data), read) for record in records]


def _with_charset(content_type: str | None, encoding: str | None) -> str | None:
    """The type with the encoding that a root was told, which a parser of somebody else's learns in no other way."""
    if encoding is None or charset(content_type):
        return content_type
    return f"{media_type(content_type) or 'application/octet-stream'}; charset={encoding}"


def _not_text(name: str, reason: str) -> Record:
    """What is no text, though it was read as such: a fault where the name says that it is."""
    return Record("", name, "no_text", error=reason) if is_bare(name) else failed("", name, reason)


def choose(data: bytes, name: str, content_type: str | None = None) -> Format:
    """Return the format that takes these bytes: by content, then by declared type, then by name.

    Raises:
        UnsupportedFormat: no format takes them; where their kind is known, the message names it.
    """
    head = data[:_SNIFFED].removeprefix(b"\xef\xbb\xbf").lstrip()
    for candidate in _registry.by_content.values():
        if candidate.matches and candidate.matches(head):
            return candidate
    named = _by_name(name, content_type)
    contained = container_format(data) if data.startswith(CONTAINER_MAGIC) else None
    # That it is some zip or OLE file says less than a name like .docx, whose parser tells what is wrong with it.
    if contained in _registry.by_name and (contained != "zip" or named is None or named.textual):
        return _registry.by_name[contained]
    if named is not None:
        misnamed = textual_kind(named.name, head, name) if contained is None else None
        return _registry.by_name[misnamed] if misnamed else named
    if is_web(name) and head.startswith(b"<") and not head.startswith(b"<?xml"):
        return _registry.by_type["text/html"]
    raise UnsupportedFormat(_refusal(data, name, media_type(content_type)))


def _by_name(name: str, content_type: str | None) -> Format | None:
    declared, ending = media_type(content_type), suffix(name)
    if declared in _registry.by_type and declared not in _GENERIC_TYPES:
        return _registry.by_type[declared]
    if ending in _registry.by_suffix:
        return _registry.by_suffix[ending]
    if _is_named_code(name):
        return _registry.by_name["code"]
    if is_bare(name) and declared in _GENERIC_TYPES:
        return _registry.by_name["text"]
    return _registry.by_type["text/plain"] if declared.startswith("text/") else None


def _refusal(data: bytes, name: str, declared: str) -> str:
    kind = media_kind(data)
    if kind:
        return f"{name}: it is {kind}, which no parser reads"
    return (
        f"{name}: no parser takes this file (suffix {suffix(name) or 'none'}, type {declared or 'not declared'}); "
        f"known suffixes: {', '.join(supported_suffixes())}"
    )


for _format in BUILTIN_FORMATS:
    add(_format)
