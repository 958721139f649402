"""Quality figures of a source, kept in `document.metadata["quality"]`: how much came in, and what was lost.

    bytes_in               size of the file
    characters_in          code points after decoding, where the parser decodes text (HTML, Markdown, ...)
    characters_out         code points of `document.text`
    replacement_characters U+FFFD in `document.text`: each stands for something that could not be decoded
    encoding               what the text was decoded from, where that is not UTF-8
    encoding_guessed       true where nobody has said so, and
    encoding_evidence      how many characters that are not ASCII it was guessed from
    share_kept             of a web page's running text (no links, menus, footers or comments), what became text: 0 to 1
    languages              ISO 639-1 codes found in the text, most frequent first
    columns                columns of text side by side on a PDF's page, on the page that has most of them
    form_values, notes     values filled into a PDF's form, and notes on its pages, that are part of the text
    text_objects_unread    pieces of text that a PDF shows, and that name no character; then also `text_objects`, all
    pages, pages_without_text, pages_ocr, repeated_lines_dropped, ...   what the parser itself counted

Records of a collection file have only the figures that say something: there is one for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rag_assets.documents.decoding import Reading
from rag_assets.documents.languages import detect
from rag_assets.documents.model import Document, Record
from rag_assets.errors import ParseError
from rag_assets.printing import counted

QUALITY = "quality"
GIVEN = "quality_given"  # where a file's own metadata has a field named quality, it is kept under this name
_OF_THE_FILE = ("bytes_in", "characters_in", "share_kept")
_REPLACEMENT = "\ufffd"
_ALWAYS_PLAUSIBLE = 200_000  # characters
_PLAUSIBLE_RATIO = 100  # characters for a byte


def figures(metadata: Mapping[str, Any] | None = None, **counts: Any) -> dict[str, Any]:
    """Return metadata with what has been counted, for example by a parser for the document that it makes."""
    result = dict(metadata or {})
    before = result.get(QUALITY, {})
    if not isinstance(before, Mapping):
        result[GIVEN], before = before, {}
    result[QUALITY] = {**before, **counts}
    return result


def refuse_inflated(records: Iterable[Record], bytes_in: int) -> None:
    """Refuse a file of `bytes_in` that says more than a person can have written into it: each character is paid for.

    Documents hold at most two characters for a byte, and text that is packed well some thirty.

    Raises:
        ParseError: names both sizes.
    """
    characters = sum(len(record.document.text) for record in records if record.document)
    if characters > max(_ALWAYS_PLAUSIBLE, _PLAUSIBLE_RATIO * bytes_in):
        raise ParseError(
            f"{characters:,} characters come out of {counted(bytes_in, 'byte')}: one text is repeated in it without "
            "end, or the file is made to flood its reader"
        )


def with_quality(record: Record, bytes_in: int, read: Reading) -> Record:
    """Return the record with its quality figures, and with the language of its text where no file says it; `read` says
    how the file was decoded."""
    document = record.document
    if record.status != "ready" or document is None:
        return record
    replaced = document.text.count(_REPLACEMENT)
    # A file inside this one has been decoded by itself, and of a row in ASCII any encoding makes the same.
    found = _encoding(read) if not record.part and not document.text.isascii() else {}
    if record.key:
        found |= {"replacement_characters": replaced, "characters_out": len(document.text)} if replaced else {}
        return _with(record, document, found) if found else record
    found |= {"bytes_in": bytes_in, "characters_out": len(document.text), "replacement_characters": replaced}
    if not _is_code(document):
        languages = detect(document.text)
        found["languages"] = list(languages.all)
        document = replace(document, language=document.language or languages.main)
    return _with(record, document, found)


def _encoding(read: Reading) -> dict[str, Any]:
    if not read.encodings:
        return {}
    found: dict[str, Any] = {"encoding": ", ".join(sorted(read.encodings))}
    if read.guesses:
        found |= {"encoding_guessed": True, "encoding_evidence": min(read.guesses.values())}
    return found


def _with(record: Record, document: Document, found: Mapping[str, Any]) -> Record:
    return replace(record, document=replace(document, metadata=figures(document.metadata, **found)))


def _is_code(document: Document) -> bool:
    return bool(document.blocks) and all(block.kind == "code" for block in document.blocks)


def lasting(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata without what is said of the file: a page whose text is the same is the same document."""
    quality = metadata.get(QUALITY)
    if not isinstance(quality, Mapping):
        return dict(metadata)
    kept = {name: value for name, value in quality.items() if name not in _OF_THE_FILE}
    return {**metadata, QUALITY: kept}
