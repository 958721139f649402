"""Manual pages, in the macros of man(7) and mdoc(7), as `man` shows them."""

from __future__ import annotations

import re
from collections.abc import Callable

from rag_assets.documents.building import TextBuilder
from rag_assets.documents.parsers.markup.flow import Flow, table_row
from rag_assets.documents.parsers.markup.man_words import CHARACTERS, STRINGS, Mdoc

_REQUEST = re.compile(r"[.'][ \t]*([A-Za-z%][A-Za-z0-9]*)[ \t]*(.*)\Z")
_REMARK = re.compile(r"[.'][ \t]*\\[\"#]|['.][ \t]*\Z")
_ARGUMENT = re.compile(r'"((?:[^"]|"")*+)"?|((?:[^\s\\]|\\.)++)')
_ESCAPE = re.compile(
    r"\\(?:f(?:\[[^\]\n]{0,100}\]|\(..|.)|s(?:[+-]?\d{1,2}|\[[^\]\n]{0,100}\])|\*(?:\[(?P<long>[^\]\n]{0,100})\]|\((?P<short>..)|(?P<letter>.))"
    r"|[hvwlLDoZXNRbxA](?P<quote>['\x07]).{0,200}?(?P=quote)|[nmMFgkVYO](?:\[[^\]\n]{0,100}\]|\(..|.)"
    r"|\[(?P<named>[^\]\n]{0,100})\]|\((?P<pair>..)|(?P<one>.))"
)
_END = re.compile(r"[.'][ \t]*\.[ \t]*\Z")  # of a macro
_REMARK_BEHIND = re.compile(r"(?<!\\)\\\".*")
_FONTS = frozenset({"B", "I", "R", "SM", "SB", "BR", "IR", "RB", "RI", "BI", "IB"})
_PARAGRAPHS = frozenset({"PP", "P", "LP", "sp", "HP", "Pp", "br"})
_CODE = {"nf": "fi", "EX": "EE", "Bd": "Ed", "Vb": "Ve"}
_SKIPPED = {"de": "..", "ig": "..", "am": "..", "EQ": ".EN", "PS": ".PE"}
_BULLETS = frozenset({"•", "-", "*", "o", "·", "–", "—"})
_MANY = 200_000  # lines


def add_man(text: str, builder: TextBuilder) -> str:
    """Append what a manual page says; the answer is its name with its section, such as `tar(1)`."""
    reader = _Reader(text.split("\n")[:_MANY], builder)
    reader.read()
    return reader.title


class _Reader:
    def __init__(self, lines: list[str], builder: TextBuilder) -> None:
        self.lines, self.place = lines, 0
        self.builder = builder
        self.flow = Flow(builder)
        self.title = ""
        self.mdoc = Mdoc()
        self.depth = 0  # of indented parts and lists
        self.marks: list[str] = []  # of the lists that are open: what stands before their items
        self.otherwise = False  # whether what stands for other cases than the last one holds
        self.expects: Callable[[str], None] | None = None  # what takes the next line

    def read(self) -> None:
        while self.place < len(self.lines):
            line = self.lines[self.place]
            self.place += 1
            while line.endswith("\\") and not line.endswith("\\\\") and self.place < len(self.lines):
                line = line[:-1] + self.lines[self.place]
                self.place += 1
            if not _REMARK.match(line):
                self._line(_REMARK_BEHIND.sub("", line))
        self.flow.end()

    def _line(self, line: str) -> None:
        request = _REQUEST.match(line)
        if request is None:
            if line.startswith((".", "'")):
                return
            self._say(plain(line)) if line.strip() else self._paragraph()
        elif request[1] in _FONTS:
            self._say(_in_fonts(request[1], arguments(request[2])))
        else:
            self._request(request[1], request[2])

    def _say(self, text: str) -> None:
        if self.expects and text.strip():
            taken, self.expects = self.expects, None
            taken(text)
        else:
            self.flow.line(text)

    def _paragraph(self) -> None:
        self.flow.end_paragraph() if self.depth else self.flow.end()

    def _request(self, name: str, rest: str) -> None:
        given = arguments(rest)
        if name in ("TH", "Dt") and given:
            self.title = f"{given[0].lower()}({given[1]})" if len(given) > 1 else given[0].lower()
            self.builder.add("heading", self.title)
        elif name in ("SH", "SS", "Sh", "Ss"):
            self._heading(2 if name[1] in "Hh" else 3, " ".join(given))
        elif name in _PARAGRAPHS:
            self._paragraph() if name != "br" else self.flow.line("\n")
        elif name in ("TP", "TQ"):
            self.flow.item("-", self.depth + 1)
            self.expects = lambda term: self.flow.line(f"{term}\n")
        elif name in ("IP", "It"):
            self._item(given[0] if given and name == "IP" else self.mdoc.said(given) if name == "It" else "")
        elif name in ("RS", "Bl"):
            self._open(given if name == "Bl" else [])
        elif name in ("RE", "El"):
            self._close()
        elif name in _CODE:
            self._code(_CODE[name], given)
        elif name in _SKIPPED:
            self._until(f".{given[1]}" if name in ("de", "am") and len(given) > 1 else _SKIPPED[name])
        elif name in ("if", "ie", "el"):
            self._condition(name, rest)
        elif name == "TS":
            self._table()
        elif name in ("UR", "MT", "Lk", "Mt"):
            self._say(" ".join([*given[1:], given[0]]) if given else "")
        elif name in ("Dl", "D1"):
            self.flow.block("code", self.mdoc.said(given))
        elif self.mdoc.knows(name):
            self._say(self.mdoc.said([name, *given]))

    def _condition(self, name: str, rest: str) -> None:
        """Take in what holds for a terminal, and pass over the rest."""
        holds, what = self.otherwise, rest
        if name != "el":
            condition, _, what = rest.partition(" ")
            holds = condition == "n" or condition == "!t"
            self.otherwise = condition in ("t", "!n")
        what = what.strip()
        if holds and not what.startswith("\\{"):
            self._line(what)
        elif "\\{" in what and not holds:
            opened = what.count("\\{") - what.count("\\}")
            while opened > 0 and self.place < len(self.lines):
                opened += self.lines[self.place].count("\\{") - self.lines[self.place].count("\\}")
                self.place += 1
        elif holds:
            self._line(what.removeprefix("\\{").removesuffix("\\"))

    def _heading(self, level: int, text: str) -> None:
        self.depth, self.marks = 0, []
        if text:
            self.flow.block("heading", text, level=level)
        else:
            self.flow.end()
            self.expects = lambda said: self.flow.block("heading", said, level=level)

    def _item(self, term: str) -> None:
        mark = self.marks[-1] if self.marks else ""
        self.flow.item("-", max(1, self.depth) if self.marks else self.depth + 1)
        if term and term.strip() not in _BULLETS and mark != "bullet":
            self.flow.line(f"{term}\n")

    def _open(self, given: list[str]) -> None:
        self.depth += 1
        if given:
            self.marks.append("bullet" if "-bullet" in given or "-dash" in given else "-")

    def _close(self) -> None:
        self.depth = max(0, self.depth - 1)
        if self.marks:
            self.marks.pop()
        self._paragraph()

    def _until(self, end: str) -> list[str]:
        """Return the lines before the one that ends a part, and go on behind it."""
        found = []
        while self.place < len(self.lines):
            line = self.lines[self.place]
            self.place += 1
            if line.rstrip() == end or (end == ".." and _END.match(line)):
                break
            found.append(line)
        return found

    def _code(self, end: str, given: list[str]) -> None:
        if end == "Ed" and not {"-literal", "-unfilled"} & set(given):
            self.flow.end_paragraph()
            return
        shown = []
        for line in self._until(f".{end}"):
            request = _REQUEST.match(line)
            if _REMARK.match(line):
                continue
            if request is None:
                shown.append(plain(line))
            elif request[1] in _FONTS:
                shown.append(_in_fonts(request[1], arguments(request[2])))
            elif request[1] in ("SH", "SS", "Sh", "Ss"):
                self.place -= 1  # it was left open
                self.lines[self.place] = line
                break
            elif self.mdoc.knows(request[1]):
                shown.append(self.mdoc.said([request[1], *arguments(request[2])]))
            elif request[1] in ("sp", "PP", "P"):
                shown.append("")
        self.flow.block("code", "\n".join(shown))

    def _table(self) -> None:
        rows: list[list[str]] = []
        cell: list[str] | None = None  # that goes over several lines
        separator, in_format = "\t", True
        for line in self._until(".TE"):
            if in_format:
                chosen = re.search(r"tab ?\((.)\)", line)
                separator = chosen[1] if chosen else separator
                in_format = not line.rstrip().endswith(".")
            elif cell is not None and not line.startswith("T}"):
                request = _REQUEST.match(line)
                cell.append(_in_fonts("R", arguments(request[2])) if request else line)
            elif line.startswith("T}") and cell is not None:
                rows[-1][-1] = " ".join(cell)
                rows[-1] += line[2:].split(separator)[1:]
                cell = [] if line.rstrip().endswith("T{") else None
            elif not _REQUEST.match(line) and line.strip(" _="):
                rows.append(line.split(separator))
                cell = [] if line.rstrip().endswith("T{") else None
        self.flow.block("table", "\n".join(table_row([plain(part) for part in row]) for row in rows))


def arguments(rest: str) -> list[str]:
    """Return the arguments of a request, as they are shown."""
    return [plain((quoted or bare).replace('""', '"')) for quoted, bare in _ARGUMENT.findall(rest)]


def plain(text: str) -> str:
    """Return text without escapes: fonts go, and characters are what they stand for."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    string = escape["long"] or escape["short"] or escape["letter"]
    if string is not None:
        return STRINGS.get(string, "")
    name = escape["named"] or escape["pair"] or escape["one"]
    if name is None:
        return ""
    if re.fullmatch(r"u[0-9A-Fa-f]{4,5}", name):
        return chr(int(name[1:], 16))
    return CHARACTERS.get(name, "" if escape["one"] is None or name in "&/,|^%cdurpt{}:a" else name)


def _in_fonts(name: str, given: list[str]) -> str:
    """Return words of a line in one font, or of one in two that change from word to word without a space."""
    return ("" if len(name) == 2 and name not in ("SM", "SB") else " ").join(given)
