"""LaTeX as its reader sees it: headings, lists, tables and text without macros; formulas stay as they are written."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from rag_assets.documents.building import TextBuilder
from rag_assets.documents.parsers.markup.flow import Flow, table_row
from rag_assets.documents.parsers.markup.latex_words import (
    ACCENTS,
    DEFINITIONS,
    DROPPED,
    LABELLED,
    LEVELS,
    MATH,
    OPENED,
    SYMBOLS,
    TABLES,
    VERBATIM,
)

_TOKEN = re.compile(
    r"(?P<comment>%[^\n]*+(?:\n[ \t]*+(?!\n)|\Z)?)"
    r"|(?P<verb>\\(?:verb|lstinline)\*?(?:\[[^\]\n]*+\])?+(?P<mark>[^A-Za-z0-9\s*\[{])(?P<said>[^\n]{0,500}?)(?P=mark))"
    r"|\\(?P<macro>[A-Za-z@]++)(?P<star>\*?)[ \t]*+"
    r"|(?P<display>\\\[|\$\$|\\\()"
    r"|\\(?P<sign>[^A-Za-z@])"
    r"|(?P<blank>\n[ \t]*+\n\s*+)"
    r"|(?P<math>\$(?:[^$\\\n]|\\.|\n(?![ \t]*+\n))*+\$)"
    r"|(?P<quote>``|''|---?)"
    r"|(?P<one>[{}&~\n$\\`'-])"
    r"|(?P<text>[^\\%{}$&~\n`'-]++)",
    re.DOTALL,
)
_BRACES = re.compile(
    r"\\begin\{(?P<code>verbatim|Verbatim|lstlisting|minted|alltt)\*?\}.{0,10000}?\\end\{(?P=code)\*?\}|\\.|%[^\n]*+|[{}]",
    re.DOTALL,
)
_OPTION = re.compile(r"\s*\[(?:[^\[\]]|\[[^\[\]]*+\]){0,500}\]")
_OPENING = re.compile(r"\s*\{")
_NAME = re.compile(r"[ \t]*\{([^{}\n]*+)\}")
_CLOSES = {"\\[": "\\]", "\\(": "\\)", "$$": "$$"}
_QUOTES = {"``": "“", "''": "”", "--": "–", "---": "—"}
_LABEL = re.compile(r"\\(?:label|nonumber|notag)\b[ \t]*(?:\{[^{}]*+\})?")
_DEFINED = re.compile(r"\*?\s*(?:\{\s*)?\\([A-Za-z@]+)\s*\}?\s*((?:#\d)++|\[\d\]\s*(?:\[[^\]\n]*+\])?+)?")
_MARKS = re.compile(r"\\[A-Za-z]*|[{}]")
_COMMA = re.compile(r" +,")  # as `\\and` leaves it between authors
_BEGIN, _END = "\\begin{document}", "\\end{document}"
_SPACES = frozenset(",;: /\n\t!@")
_MAX_EXPANSION = 200  # characters that a macro of the file may stand for


@dataclass
class _Open:
    """An argument that is read apart from the text: where its brace closes, what it is, and the text meanwhile."""

    close: int
    kind: str
    words: list[str]


@dataclass
class _Table:
    rows: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    depth: int = 1
    words: list[str] = field(default_factory=list)  # of the text around it


def add_latex(text: str, builder: TextBuilder) -> str:
    """Append what a document in LaTeX says; the answer is its title. The time grows with the length alone."""
    preamble, begins, body = text.partition(_BEGIN)
    if not begins:
        preamble, body = "", text
    body = body.rpartition(_END)[0] or body  # the last one: others are what the text is about
    front = _Reader(preamble, TextBuilder())
    front.read()
    builder.add("heading", front.title)
    for line in front.front:
        builder.add("paragraph", line)
    reader = _Reader(body, builder, front.named)
    reader.read()
    return front.title or reader.title


class _Reader:
    def __init__(self, text: str, builder: TextBuilder, named: dict[str, str] | None = None) -> None:
        self.text, self.builder = text, builder
        self.flow = Flow(builder)
        self.title = ""
        self.open: list[_Open] = []
        self.lists: list[list[int]] = []  # of each open list the number of its last item; none: it has no numbers
        self.table: _Table | None = None
        self.notes: list[str] = []
        self.front: list[str] = []  # who has written it, and when
        self.named = named or {}  # macros of the file that stand for some words
        self.accent = ""
        self.missing: set[str] = set()  # what closes formulas and is found no more
        self.ends = self._braces()

    def _braces(self) -> dict[int, int]:
        """Where each brace that opens is closed."""
        ends: dict[int, int] = {}
        opened: list[int] = []
        for match in _BRACES.finditer(self.text):
            if match[0] == "{":
                opened.append(match.start())
            elif match[0] == "}" and opened:
                ends[opened.pop()] = match.start()
        return ends

    def read(self) -> None:
        place = 0
        while place < len(self.text):
            while self.open and place >= self.open[-1].close:
                self._close()
            match = _TOKEN.match(self.text, place)
            assert match is not None  # any character is a token
            place = self._token(match)
        while self.open:
            self._close()
        self._end_table()
        self._end()

    def _token(self, match: re.Match[str]) -> int:
        kind, place = match.lastgroup, match.end()
        if match["macro"] is not None:
            return self._macro(match["macro"], place)
        if match["sign"] is not None:
            return self._sign(match["sign"], place)
        if match["display"] is not None:
            return self._display(match["display"], match.start(), place)
        if match["verb"] is not None:
            self._say(match["said"])
        elif kind == "blank":
            self._paragraph()
        elif kind == "quote":
            self._say(_QUOTES[match[0]])
        elif kind == "one":
            self._one(match[0])
        elif kind != "comment":
            self._say(match[0])
        return place

    def _say(self, text: str) -> None:
        if self.accent and text.strip():
            text = unicodedata.normalize("NFC", text[0] + self.accent) + text[1:]
            self.accent = ""
        self.flow.words.append(text)

    def _one(self, sign: str) -> None:
        if sign == "&" and self.table and not self.open:
            if self.table.depth == 1:
                self._end_cell()
            else:
                self._say(" ")
        elif sign in "~\n":
            self._say(" ")
        elif sign not in "{}":
            self._say(sign)

    def _paragraph(self) -> None:
        if self.open or self.table:
            self._say(" ")
            return
        self.flow.end_paragraph()
        self._write_notes()

    def _write_notes(self) -> None:
        if self.notes and not self.lists:
            for note in self.notes:
                self.flow.block("paragraph", f"[^note]: {note}")
            self.notes = []

    def _end(self) -> None:
        self.flow.end()
        self._write_notes()

    def _sign(self, sign: str, place: int) -> int:
        if sign == "\\":
            place = self._skipped(place, _OPTION)
            if self.table and not self.open:
                if self.table.depth == 1:
                    self._end_row()
                else:
                    self._say(" ")
            else:
                self._say(" " if self.open else "\n")
        elif sign in ACCENTS:
            self.accent = ACCENTS[sign]
        elif sign in _SPACES:
            self._say(" ")
        elif sign != "-":
            self._say(sign)
        return place

    def _display(self, opening: str, start: int, place: int) -> int:
        closing = _CLOSES[opening]
        end = -1 if closing in self.missing else self.text.find(closing, place)
        if end < 0:
            self.missing.add(closing)
        end = end + 2 if end >= 0 else place
        self._say(_LABEL.sub("", self.text[start:end]))
        return end

    def _macro(self, name: str, place: int) -> int:
        if name == "begin" or name == "end":
            found = _NAME.match(self.text, place)
            if found is None:
                return place
            environment = found[1].strip().rstrip("*")
            if name == "end":
                return self._leave(environment, found.end())
            return self._enter(environment, found.end())
        if name in DEFINITIONS:
            return self._define(name, place)
        if name in LEVELS or name in OPENED:
            return self._argument(name, place)
        if name in SYMBOLS or name in self.named:
            self._say(self.named[name] if name in self.named else SYMBOLS[name])
        elif name in ACCENTS:
            self.accent = ACCENTS[name]
        elif name == "item" or name == "bibitem":
            return self._item(name, place)
        elif name in ("par", "newline", "linebreak", "newpage", "clearpage"):
            self._paragraph() if name != "newline" else self._say("\n")
        else:
            return self._skipped(place, _OPTION, DROPPED.get(name, 0))
        return place

    def _skipped(self, place: int, option: re.Pattern[str], arguments: int = 0) -> int:
        """Return the place after an option and some arguments."""
        found = option.match(self.text, place)
        place = found.end() if found else place
        for _ in range(arguments):
            opening = _OPENING.match(self.text, place)
            if opening is None or opening.end() - 1 not in self.ends:
                break
            place = self.ends[opening.end() - 1] + 1
            found = option.match(self.text, place)
            place = found.end() if found else place
        return place

    def _argument(self, kind: str, place: int) -> int:
        """Begin to read an argument apart from the text around it."""
        place = self._skipped(place, _OPTION)
        opening = _OPENING.match(self.text, place)
        close = self.ends.get(opening.end() - 1) if opening else None
        if opening is None or close is None:
            return place
        self.open.append(_Open(close, kind, self.flow.words))
        self.flow.words = []
        return opening.end()

    def _close(self) -> None:
        done = self.open.pop()
        said = _COMMA.sub(",", " ".join("".join(self.flow.words).split()))
        self.flow.words = done.words
        if done.kind in LEVELS:
            self._end()
            self.builder.add("heading", said, level=1 + LEVELS.index(done.kind))
        elif done.kind == "title":
            self.title = self.title or said
            self.flow.block("heading", said)
        elif done.kind in ("footnote", "footnotetext", "thanks"):
            self.notes += [said] if said else []
        elif done.kind == "cite":
            self._say(f"[{said}]")
        elif self.table is None and not self.open and not self.lists:
            self.front.append(said)
            self.flow.block("paragraph", said)
        elif self.table is not None and done.kind == "caption":
            self.notes += [said] if said else []
        else:
            self._say(f" {said} ")

    def _define(self, name: str, place: int) -> int:
        """Take note of a macro that stands for some words, and pass over any definition."""
        found = _DEFINED.match(self.text, place)
        if found is None:
            return self._skipped(place, _OPTION, 2)
        opening = _OPENING.match(self.text, found.end())
        close = self.ends.get(opening.end() - 1) if opening else None
        if opening is None or close is None:
            return self._skipped(found.end(), _OPTION, 2)
        words = self.text[opening.end() : close]
        if found[2] is None and len(words) <= _MAX_EXPANSION and not re.search(r"[$#&{}]|\\(?!xspace|,| )", words):
            self.named[found[1]] = re.sub(r"\\xspace\b|\\[, ]", " ", words).replace("~", " ")
        return close + 1

    def _item(self, name: str, place: int) -> int:
        label, numbers = "", self.lists[-1] if self.lists else []
        option = _OPTION.match(self.text, place)
        if option:
            label, place = " ".join(option[0].strip().strip("[]").split()), option.end()
        if name == "bibitem":
            place = self._skipped(place, _OPTION, 1)
        if numbers:
            numbers[0] += 1
        if self.open or self.table:
            self._say(f" {label} ")
            return place
        marker = f"{numbers[0]}." if numbers and not label else "-"
        self.flow.item(marker, max(1, len(self.lists)))
        if label:
            self._say(f"{_MARKS.sub(' ', label)} ")
        return place

    def _enter(self, name: str, place: int) -> int:
        if name in VERBATIM or name in MATH or name == "comment":
            return self._whole(name, place)
        option = _OPTION.match(self.text, place) if name in LABELLED else None
        place = self._skipped(place, _OPTION, TABLES.get(name, DROPPED.get(f"{name}{{}}", 0)))
        if name in TABLES:
            self._enter_table()
        elif name in ("itemize", "enumerate", "description", "thebibliography", "compactitem", "compactenum"):
            self.flow.end_paragraph()
            self.lists.append([0] if "enum" in name else [])
        elif not self.table and not self.open:
            self.flow.end_paragraph() if self.lists else self._end()
            if name == "abstract":
                self.flow.block("heading", "Abstract", level=3)
            elif name in LABELLED:
                said = f" ({_MARKS.sub(' ', option[0].strip().strip('[]')).strip()})" if option else ""
                self._say(f"{name.capitalize()}{said}. ")
        return place

    def _whole(self, name: str, place: int) -> int:
        """Take in an environment whose inside is not text in LaTeX."""
        found = re.compile(rf"\\end\s*\{{{re.escape(name)}\*?\}}").search(self.text, place)
        end, after = (found.start(), found.end()) if found else (len(self.text), len(self.text))
        inner = self.text[self._skipped(place, _OPTION) if name in VERBATIM else place : end]
        if name in MATH:
            self._say(f" {' '.join(_LABEL.sub('', inner).split())} ")
        elif name in VERBATIM:
            language = _NAME.match(inner) if name == "minted" else None
            inner = inner[language.end() :] if language else inner
            if self.open or self.table:
                self._say(inner)
            else:
                self.flow.block("code", inner.strip("\n"))
        return after

    def _leave(self, name: str, place: int) -> int:
        if name in TABLES and self.table:
            self.table.depth -= 1
            if self.table.depth == 0:
                self._end_table()
        elif self.lists and name in ("itemize", "enumerate", "description", "thebibliography"):
            self.lists.pop()
            self.flow.end_paragraph() if self.lists else self._end()
            self.flow.depth = min(self.flow.depth, len(self.lists)) if self.lists else self.flow.depth
        elif not self.table and not self.open:
            self._paragraph()
        return place

    def _enter_table(self) -> None:
        if self.table:
            self.table.depth += 1
            return
        if not self.open:
            self._end()
        self.table = _Table(words=self.flow.words)
        self.flow.words = []

    def _end_cell(self) -> None:
        assert self.table
        self.table.cells.append("".join(self.flow.words))
        self.flow.words = []

    def _end_row(self) -> None:
        assert self.table
        self._end_cell()
        row = table_row(self.table.cells)
        if row.strip(" |"):
            self.table.rows.append(row)
        self.table.cells = []

    def _end_table(self) -> None:
        if self.table is None:
            return
        self._end_row()
        table, self.table = self.table, None
        self.flow.words = table.words
        if self.open:
            self._say("\n".join(table.rows))
        else:
            self.flow.block("table", "\n".join(table.rows))
            self._write_notes()
