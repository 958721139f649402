"""Contacts (`.vcf`, vCard 2.1 to 4.0): each card is a source of its own."""

from __future__ import annotations

import hashlib
import quopri
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rag_assets.documents.building import failed
from rag_assets.documents.decoding import decode
from rag_assets.documents.model import Document, Record
from rag_assets.documents.names import charset
from rag_assets.documents.normalize import normalize
from rag_assets.errors import ParseError

_FOLD = re.compile(r"\n[ \t]")
_LABELS = {
    "NICKNAME": "Nickname", "ORG": "Organisation", "TITLE": "Title", "ROLE": "Role", "TEL": "Phone", "EMAIL": "E-mail",
    "ADR": "Address", "LABEL": "Address", "URL": "Web", "IMPP": "Chat", "BDAY": "Born", "ANNIVERSARY": "Anniversary",
    "CATEGORIES": "Categories", "RELATED": "Related", "LANG": "Language", "TZ": "Time zone",
}  # fmt: skip
_SAID_ONCE = frozenset({"pref", "internet", "voice", "quoted-printable", "8bit", "7bit", "base64", "b", "utf-8"})
_ESCAPED = re.compile(r"\\([nN,;:\\])")
_PARTS = re.compile(r"(?<!\\)[;,]")


@dataclass(frozen=True)
class _Property:
    """A line of a card: `TEL;TYPE=work:+49 30` has the name TEL and the kinds `("work",)`."""

    name: str
    kinds: tuple[str, ...]
    value: str


def parse_contacts(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse the cards of a vCard file.

    Raises:
        ParseError: it holds no card.
    """
    text = normalize(decode(data, charset(content_type)))
    records: dict[str, Record] = {}
    for number, card in enumerate(_cards(text), start=1):
        record = replace(_record(card), place=f"contact {number}")
        if record.key in records:
            reason = f"there is another contact with the id {record.key!r}"
            record = replace(failed(f"{record.key}#{number}", record.name, reason, "record"), place=record.place)
        records[record.key] = record
    if not records:
        raise ParseError("the file is no vCard file: no card begins in it")
    return list(records.values())


def _cards(text: str) -> Iterator[list[_Property]]:
    card: list[_Property] | None = None
    for line in _lines(text):
        mark = line.strip().upper()
        if mark == "BEGIN:VCARD":
            card = []
        elif mark == "END:VCARD" and card is not None:
            yield card
            card = None
        elif card is not None and ":" in line:
            card.append(_property(line))
    if card:
        yield card


def _lines(text: str) -> Iterator[str]:
    """Yield whole lines: folded ones are one, as are those of which an equals sign says that they go on."""
    lines = iter(_FOLD.sub("", text).split("\n"))
    for line in lines:
        parts = [line]
        if "QUOTED-PRINTABLE" in line.partition(":")[0].upper():
            while parts[-1].endswith("="):
                parts[-1] = parts[-1][:-1]
                parts.append(next(lines, ""))
        yield "".join(parts)


def _property(line: str) -> _Property:
    head, _, value = line.partition(":")
    name, *parameters = head.split(";")
    values = [part.partition("=")[2] or part for part in parameters]
    codec = next((part.partition("=")[2] for part in parameters if part.upper().startswith("CHARSET=")), "utf-8")
    if any(part.upper() == "QUOTED-PRINTABLE" for part in values):
        value = decode(quopri.decodestring(value.encode()), codec)
    named = [
        part.partition("=")[2] or part for part in parameters if "=" not in part or part.upper().startswith("TYPE=")
    ]
    kinds = [kind.strip(' "').lower() for part in named for kind in part.split(",")]
    return _Property(name.rpartition(".")[2].upper(), tuple(kind for kind in kinds if kind not in _SAID_ONCE), value)


def _record(card: list[_Property]) -> Record:
    values = {entry.name: entry.value for entry in reversed(card)}
    title = _plain(values.get("FN", "")) or " ".join(reversed(_parts(values.get("N", ""))[:2]))
    title = " ".join(normalize(title or ", ".join(_parts(values.get("ORG", "")))).split())
    lines = [title]
    for entry in card:
        said = ", ".join(_parts(entry.value)) if entry.name in ("ADR", "ORG") else _plain(entry.value)
        said = " ".join(said.removeprefix("tel:").removeprefix("mailto:").split())
        if entry.name in _LABELS and said:
            kinds = f" ({', '.join(entry.kinds)})" if entry.kinds else ""
            lines.append(f"{_LABELS[entry.name]}{kinds}: {said}")
    notes = [_plain(entry.value) for entry in card if entry.name == "NOTE"]
    text = normalize("\n\n".join(filter(None, ["\n".join(filter(None, lines)), *notes]))).strip()
    key = normalize(_plain(values.get("UID", ""))) or title or hashlib.sha256(text.encode()).hexdigest()[:32]
    if not text:
        return Record(key, key, "no_text", error="the card says nothing", source_type="record")
    document = Document(text, title, "text/vcard", metadata={"doc_id": key})
    return Record(key, title or key, "ready", document, source_type="record")


def _parts(value: str) -> list[str]:
    return [part for part in map(_plain, _PARTS.split(value)) if part]


def _plain(value: str) -> str:
    return _ESCAPED.sub(lambda escaped: "\n" if escaped[1] in "nN" else escaped[1], value).strip()
