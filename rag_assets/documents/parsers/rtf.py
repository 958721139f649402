"""Rich text (RTF): paragraphs, headings, lists, tables, notes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from rag_assets.documents.building import TextBuilder, whole_file
from rag_assets.documents.decoding import in_ascii_form
from rag_assets.documents.model import Document, Record
from rag_assets.documents.parsers.office.properties import real_title
from rag_assets.documents.parsers.rtf_words import CHARACTERS, CHARSETS, ENTERED, PARAGRAPH_ENDS, SKIPPED
from rag_assets.errors import ParseError

_TOKEN = re.compile(
    r"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)", re.DOTALL
)
_MAX_DEPTH = 10_000  # open groups
_HEADING = re.compile(r"heading ?([1-9])")


def parse_rtf(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a rich text file; hidden and deleted text is left out, notes follow the paragraph they belong to.

    Raises:
        ParseError: not RTF.
    """
    data = in_ascii_form(data).lstrip()
    if not data.startswith(b"{\\rtf"):
        raise ParseError("the file does not begin with {\\rtf: it is no rich text")
    return whole_file(rtf_document(data), name, "the document holds no text")


def rtf_document(data: bytes) -> Document:
    """Return the document in RTF data."""
    reader = _Reader(data.decode("latin-1"))
    reader.run()
    title = real_title("".join(reader.info.get("title", [])))
    metadata = {key: text for key in ("author", "subject") if (text := "".join(reader.info.get(key, [])).strip())}
    return reader.builder.document(title=title, content_type="application/rtf", metadata=metadata)


@dataclass(frozen=True)
class _Group:
    """What a group inherits from the one around it. `target` is where its text goes."""

    target: str = "text"
    font: int | None = None
    skip: int = 1  # characters that stand in for a \\u character
    hidden: bool = False
    deleted: bool = False
    twin: bool = False  # inside \\htmlrtf: a copy of what the HTML around it says


@dataclass
class _Paragraph:
    style: int = 0
    level: int | None = None
    in_table: bool = False


@dataclass
class _Reader:
    source: str
    builder: TextBuilder = field(default_factory=TextBuilder)
    info: dict[str, list[str]] = field(default_factory=dict)
    parts: dict[str, list[str]] = field(default_factory=dict)  # by target
    group: _Group = _Group()
    stack: list[_Group] = field(default_factory=list)
    paragraph: _Paragraph = field(default_factory=_Paragraph)
    codec: str = "cp1252"
    codecs: dict[int, str] = field(default_factory=dict)  # by font
    defined: int = 0  # the font or style that is being defined
    styles: dict[int, int] = field(default_factory=dict)  # style to heading level
    pending: bytearray = field(default_factory=bytearray)
    cells: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left: int = 0  # stand-ins still to be skipped
    optional: bool = False  # after \\*: an unknown word means that the group is skipped

    def run(self) -> None:
        place = 0
        while match := _TOKEN.search(self.source, place):
            place = match.end()
            word, number, code, sign, brace, text = match.groups()
            if word:
                place = self._word(word.lower() if word.isupper() else word, number, place)
            elif code:
                self._bytes(bytes.fromhex(code))
            elif sign:
                self._sign(sign)
            elif brace:
                self._brace(brace)
            elif text:
                self._bytes(text.encode("latin-1"))
        self._end_paragraph()
        self._end_row()
        self._flush()
        self._write_notes()

    def _bytes(self, data: bytes) -> None:
        self.optional = False
        skipped = min(self.left, len(data))
        self.left -= skipped
        self.pending += data[skipped:]

    def _decode(self) -> None:
        """Write what is pending; before anything that changes how bytes are read or where text goes."""
        if self.pending:
            data = bytes(self.pending)
            self.pending.clear()
            codec = self.codecs.get(self.group.font or 0, self.codec) if self.group.target == "text" else self.codec
            self._write(data.decode(codec, "replace"))

    def _write(self, text: str) -> None:
        if not (self.group.hidden or self.group.deleted or self.group.twin) and self.group.target != "skip":
            self.parts.setdefault(self.group.target, []).append(text)

    def _take(self, target: str) -> str:
        return "".join(self.parts.pop(target, ())).strip()

    def _sign(self, sign: str) -> None:
        if sign == "*":
            self.optional = True
            return
        self._decode()
        if self.left:
            self.left -= 1
        elif sign in "\r\n":
            self._end_paragraph()
        else:
            self._write({"~": "\u00a0", "_": "\u2011", "-": "", "|": "", ":": ""}.get(sign, sign))

    def _brace(self, brace: str) -> None:
        self._decode()
        self.left, self.optional = 0, False
        if brace == "{":
            if len(self.stack) >= _MAX_DEPTH:
                raise ParseError(f"groups are nested more than {_MAX_DEPTH:,} levels deep")
            self.stack.append(self.group)
        elif self.stack:
            closed, self.group = self.group, self.stack.pop()
            if closed.target != self.group.target or closed.target == "stylesheet":
                self._close(closed.target)

    def _close(self, target: str) -> None:
        if target in ("footnote", "annotation"):
            text = " ".join(self._take(target).split())
            author = self._take("atnauthor")
            label = f"[Comment by {author or 'unknown'}]:" if target == "annotation" else "[^note]:"
            self.notes += [f"{label} {text}"] if text else []
        elif target in ("title", "author", "subject"):
            self.info[target] = self.parts.pop(target, [])
        elif target == "stylesheet":
            named = _HEADING.match(self._take(target).rstrip(";").lower())
            if named:
                self.styles[self.defined] = int(named.group(1))

    def _word(self, word: str, number: str | None, place: int) -> int:
        """Obey a control word and return where reading goes on."""
        optional, self.optional = self.optional, False
        value = int(number) if number else None
        if word == "bin":
            return place + max(value or 0, 0)
        self._decode()
        if self.left and word not in ("u", "par"):
            self.left -= 1
        if word == "u" and value is not None:
            self._write(chr(value % 0x10000))
            self.left = self.group.skip
        elif word in CHARACTERS:
            self._write(CHARACTERS[word])
        elif word in PARAGRAPH_ENDS:
            self._end(word)
        elif word in ENTERED:
            self.group = replace(self.group, target=ENTERED[word])
        elif word in SKIPPED or (not self._format(word, value) and optional):
            self.group = replace(self.group, target="skip")
        return place

    def _format(self, word: str, value: int | None) -> bool:
        """Take a word that sets how text is read or what it is; False for any other word."""
        on = value != 0
        changes: dict[str, Any] = {
            "uc": {"skip": max(value or 0, 0)},
            "v": {"hidden": on},
            "deleted": {"deleted": on},
            "htmlrtf": {"twin": on},
            "plain": {"hidden": False, "deleted": False},
        }
        if word in changes:
            self.group = replace(self.group, **changes[word])
        elif word == "f":
            self.group = replace(self.group, font=value)
            self.defined = value or 0
        elif word == "fcharset":
            self.codecs[self.defined] = CHARSETS.get(value or 0, self.codec)
        elif word == "ansicpg" and value:
            self.codec = _codec(value)
        elif word == "pard":
            self.paragraph = _Paragraph()
        elif word == "s" and value is not None:
            self.paragraph.style = self.defined = value
        elif word == "outlinelevel" and value is not None:
            self._outline(value)
        elif word == "intbl":
            self.paragraph.in_table = True
        else:
            return False
        return True

    def _outline(self, value: int) -> None:
        if self.group.target == "stylesheet":
            self.styles.setdefault(self.defined, value + 1)
        elif value < 9:
            self.paragraph.level = value + 1

    def _end(self, word: str) -> None:
        if self.group.target != "text":
            self._write(" ")
        elif word == "cell" or word == "nestcell":
            self.cells.append(" ".join(self._take("text").split()))
        elif word == "row":
            self._end_row()
        elif word != "nestrow":
            self._end_paragraph()

    def _end_row(self) -> None:
        """Write the cells that were met, also the last one where nothing closed it."""
        rest = " ".join(self._take("text").split())
        self.cells += [rest] if rest else []
        if self.cells:
            self._flush_items()
            self.rows.append(" | ".join(self.cells).rstrip(" |"))
            self.cells.clear()

    def _end_paragraph(self) -> None:
        self._decode()
        if self.paragraph.in_table and self.group.target == "text":
            self._write(" ")
            return
        marker, text = self._take("marker"), self._take("text")
        if not text:
            return
        if self.cells:
            # A row that was never closed.
            text = " | ".join([*self.cells, text])
            self.cells.clear()
        level = self.paragraph.level or self.styles.get(self.paragraph.style)
        if marker and not level:
            self._flush_rows()
            self.items.append(f"{marker if marker[:1].isalnum() else '-'} {text}")
        else:
            self._flush()
            label = f"{marker} " if marker[:1].isalnum() else ""
            self.builder.add("heading" if level else "paragraph", label + text, level=level or 1)
        self._write_notes()

    def _flush(self) -> None:
        self._flush_rows()
        self._flush_items()

    def _flush_rows(self) -> None:
        self.builder.add("table", "\n".join(row for row in self.rows if row))
        self.rows.clear()

    def _flush_items(self) -> None:
        self.builder.add("list", "\n".join(self.items))
        self.items.clear()

    def _write_notes(self) -> None:
        if self.notes:
            self._flush()
        for note in self.notes:
            self.builder.add("paragraph", note)
        self.notes.clear()


def _codec(page: int) -> str:
    name = {10000: "mac_roman", 65001: "utf-8"}.get(page, f"cp{page}")
    try:
        "".encode(name)
    except LookupError:
        return "cp1252"
    return name
