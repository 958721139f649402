"""The order in which a person reads the pieces of a page: columns one after the other, the rows of tables as they are.

A page is cut as by recursive XY cuts (Nagy, Seth and Viswanathan, "A prototype document image analysis system for
technical journals", Computer 25(7), 1992), with one difference: a gap that runs down the page is only cut at where
what stands on both sides of it reads as text. Everything else, such as tables, lists and forms, stays in the order in
which the file prints it.
"""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

# All lengths are times the usual height of a line on the page.
_GUTTER = 0.5  # what parts two columns at least
_SPACE = 5.0  # lines times the width of what parts them
_STRIP = 1.0  # what parts the columns of a page from its header and footer
_EDGE_ROWS = 2
_BACK_UP = 2.0  # further up than fractions and raised letters: something else begins there
_NARROWEST = 8.0  # a column of text
FEWEST = 3  # lines of a column of text
_FILLED = 0.7  # of the width of its column: what a line of running text takes up at least
_WORDS = 3  # in a line of running text
_MOST = 0.5  # of the lines of a column
_FULL = 0.85  # of the width: where a line of text ends that goes on in the next one
_THROUGH = 0.6  # of the rows beside a text: where it runs on from the line before, they are no rows of one table
_WIDE_SPACE = 1.35  # times the usual distance between lines: what parts the rows of a table
_ROWS = 0.75  # of such spaces on one side: how many are found on the other one where both are a table
_THIN = 3.0  # points: the width of a line, and how far its pieces may be apart
_SAME_LINE = 0.5  # of the lower one's height
_SAME_BASE = 0.2


class Piece(NamedTuple):
    """A part of a line without a wide gap: where it stands in points, turned so that it is upright.

    `words` is how many words it has, without numbers, names of files and the like.
    """

    left: float
    bottom: float
    right: float
    top: float
    words: int


class Rule(NamedTuple):
    """A horizontal line drawn on the page, upright as the pieces are."""

    left: float
    right: float
    height: float


@dataclass(frozen=True)
class Order:
    """The numbers of the pieces as they are read, those together that stand in one column or block."""

    blocks: list[list[int]]
    columns: int  # side by side, at most


def rules_of(drawn: Iterable[tuple[float, float, float, float]]) -> list[Rule]:
    """Return the horizontal edges of lines and areas (left, bottom, right, top), pieces of one edge as one."""
    edges: list[Rule] = []
    for left, bottom, right, top in drawn:
        if right - left > _THIN:
            heights = (bottom, top) if top - bottom > _THIN else ((bottom + top) / 2,)
            edges += (Rule(left, right, height) for height in heights)
    rules: list[Rule] = []
    for edge in sorted(edges, key=lambda edge: (round(edge.height), edge.left)):
        last = rules[-1] if rules else None
        if last and round(last.height) == round(edge.height) and edge.left <= last.right + _THIN:
            rules[-1] = Rule(last.left, max(last.right, edge.right), last.height)
        else:
            rules.append(edge)
    return rules


def reading_order(pieces: Sequence[Piece], rules: Sequence[Rule] = (), leftwards: bool = False) -> Order:
    """Return the order of a page's pieces, which come in the order of printing.

    `leftwards` is for scripts that are written so: their columns begin at the right.
    """
    if not pieces:
        return Order([], 0)
    reader = _Reader(pieces, sorted(rules, key=lambda rule: -rule.height), leftwards)
    return Order(list(reader.blocks(list(range(len(pieces))))), reader.columns)


@dataclass
class _Zone:
    """Pieces under each other that share their columns; `cover` are the parts of the width that they take up."""

    pieces: list[int] = field(default_factory=list)
    cover: list[tuple[float, float]] = field(default_factory=list)
    bottom: float = float("inf")

    def add(self, number: int, piece: Piece) -> None:
        self.pieces.append(number)
        if not any(left <= piece.left and piece.right <= right for left, right in self.cover):
            self.cover = _with(self.cover, piece.left, piece.right)
        self.bottom = min(self.bottom, piece.bottom)

    def below(self, other: _Zone) -> _Zone:
        """Return this zone with what stands above it."""
        cover = self.cover
        for left, right in other.cover:
            cover = _with(cover, left, right)
        return _Zone(other.pieces + self.pieces, cover, self.bottom)


class _Reader:
    def __init__(self, pieces: Sequence[Piece], rules: Sequence[Rule], leftwards: bool) -> None:
        self.pieces = pieces
        self.rules = rules
        self.leftwards = leftwards
        self.height = statistics.median(piece.top - piece.bottom for piece in pieces)
        self.columns = 1

    def blocks(self, region: list[int]) -> Iterator[list[int]]:
        """Yield what belongs together, in the order of reading."""
        numbers = sorted(region, key=lambda number: (-self.pieces[number].top, number))
        pairs = itertools.pairwise(self.pieces[number] for number in numbers)
        if not any(_are_level(above, below) for above, below in pairs):
            yield from self._in_order_of_printing(region)
            return
        plain: list[_Zone] = []
        for zone in self._zones(numbers):
            columns = self._columns(zone)
            if len(columns) < 2:
                plain.append(zone)
                continue
            while plain and self._begins(plain[-1], zone):
                zone = zone.below(plain.pop())
                columns = self._columns(zone)
            yield from self._in_order_of_printing([number for before in plain for number in before.pieces])
            plain = []
            wide = sum(self._is_wide(column) for column in columns)
            self.columns = max(self.columns, wide)
            for column in reversed(columns) if self.leftwards else columns:
                yield from self.blocks(column)
        yield from self._in_order_of_printing([number for zone in plain for number in zone.pieces])

    def _begins(self, above: _Zone, zone: _Zone) -> bool:
        """Tell whether columns begin in what stands above them: one is higher, or has a number before its heading."""
        gutters = self._gutters(zone.cover)
        pieces = [self.pieces[number] for number in above.pieces]
        top = max(self.pieces[number].top for number in zone.pieces)
        if min(piece.bottom for piece in pieces) - top > _STRIP * self.height:
            return False
        if any(piece.left < right and left < piece.right for piece in pieces for left, right in gutters):
            return False
        sides = {bisect_left(gutters, (piece.left, piece.left)) for piece in pieces}
        rows = _rows(pieces)
        across = sum(any(row.left < left and right < row.right for left, right in gutters) for row in rows)
        return len(self._columns(zone.below(above))) > 1 and (len(sides) == 1 or across < 2)

    def _is_wide(self, column: Sequence[int]) -> bool:
        return _width([self.pieces[number] for number in column]) >= _NARROWEST * self.height

    def _zones(self, numbers: Sequence[int]) -> Iterator[_Zone]:
        """Yield pieces, which come from top to bottom, divided where one or a rule runs across all gutters."""
        rules = iter(self.rules)
        rule = next(rules, None)
        zone = _Zone()
        for place, number in enumerate(numbers):
            piece = self.pieces[number]
            while rule and rule.height >= (piece.top + piece.bottom) / 2:
                if zone.pieces and _crosses(rule, self._gutters(zone.cover)):
                    yield zone
                    zone = _Zone()
                rule = next(rules, None)
            if zone.pieces and (self._ends(zone, piece) or self._is_at_an_edge(zone, numbers[place:])):
                yield zone
                zone = _Zone()
            zone.add(number, piece)
        if zone.pieces:
            yield zone

    def _ends(self, zone: _Zone, piece: Piece) -> bool:
        before = self._gutters(zone.cover)
        if before and not any(piece.left < right and left < piece.right for left, right in before):
            return False
        if not before:
            return not _are_level(self.pieces[zone.pieces[-1]], piece)
        left = self._gutters(_with(zone.cover, piece.left, piece.right))
        return not left or (len(left) < len(before) and self._is_table(zone))

    def _is_at_an_edge(self, zone: _Zone, rest: Sequence[int]) -> bool:
        """Tell whether a header ends here or a footer begins: columns go on where both have a space by chance."""
        if zone.bottom - self.pieces[rest[0]].top <= _STRIP * self.height:
            return False
        return any(len(_rows([self.pieces[n] for n in part])) <= _EDGE_ROWS for part in (zone.pieces, rest))

    def _is_table(self, zone: _Zone) -> bool:
        """Tell what is read row by row; a row or two may be the beginning of anything."""
        rows = _rows([self.pieces[number] for number in zone.pieces])
        return len(rows) >= FEWEST and len(self._columns(zone)) < 2

    def _gutters(self, cover: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        gaps = ((before[1], after[0]) for before, after in itertools.pairwise(cover))
        return [(left, right) for left, right in gaps if right - left >= _GUTTER * self.height]

    def _columns(self, zone: _Zone) -> list[list[int]]:
        """Return the columns of text from left to right, and the tables beside them; one list where there are none."""
        gutters = self._gutters(zone.cover)
        if not gutters:
            return [zone.pieces]
        edges = [left for left, _ in gutters]
        groups: list[list[int]] = [[] for _ in range(len(gutters) + 1)]
        for number in zone.pieces:
            groups[bisect_left(edges, self.pieces[number].right - 1e-3)].append(number)
        columns = [_Column.of(group, self.pieces, self.height) for group in groups]
        return [sorted(column.numbers) for column in self._parted(columns)]

    def _parted(self, columns: list[_Column]) -> list[_Column]:
        """Return the columns of text; what is no text is joined with what it belongs to."""
        columns = list(columns)
        while len(columns) > 1 and not all(column.is_wide for column in columns):
            # Bullets, numbers of lines and of pages, and the cells of narrow tables.
            narrow = (number for number, column in enumerate(columns) if not column.is_wide)
            pairs = {min(max(number + way, 0), len(columns) - 2) for number in narrow for way in (-1, 0)}
            nearest = min(pairs, key=lambda number: columns[number + 1].left - columns[number].right)
            columns[nearest : nearest + 2] = [self._joined(columns[nearest], columns[nearest + 1])]
        parted = [columns[0]]
        for column in columns[1:]:
            if self._are_apart(parted[-1], column):
                parted.append(column)
            else:
                parted[-1] = self._joined(parted[-1], column)
        return parted

    def _are_apart(self, one: _Column, other: _Column) -> bool:
        """Tell whether two neighbours are read one after the other, and not row by row."""
        # Where spaces between words happen to stand under each other, they are narrow or few.
        space = (other.left - one.right) / self.height * min(len(one.rows), len(other.rows))
        if space < _SPACE:
            return False
        if one.is_text and other.is_text:
            return not _share_spaces(one.rows, other.rows)
        if not one.is_text:
            one, other = other, one
        return one.is_text and other.is_wide and _runs_through(one.rows, other.rows)

    def _joined(self, one: _Column, other: _Column) -> _Column:
        numbers = one.numbers + other.numbers
        joined = _Column.of(numbers, self.pieces, self.height)
        # A narrow column beside a text takes nothing from it; two wide ones that are read row by row are a table.
        return replace(joined, is_text=(one.is_text or other.is_text) and not (one.is_wide and other.is_wide))

    def _in_order_of_printing(self, numbers: list[int]) -> Iterator[list[int]]:
        """Yield the pieces as they are printed; parts that were printed out of turn go where they stand on the page."""
        runs: list[list[int]] = []
        if not numbers:
            return
        for number in sorted(numbers):
            piece = self.pieces[number]
            if runs and piece.top <= self.pieces[runs[-1][-1]].top + _BACK_UP * self.height:
                runs[-1].append(number)
            else:
                runs.append([number])
        if len(runs) == 1:
            yield runs[0]
            return
        spans = sorted((self._span(run), run) for run in runs)
        # Parts that stand beside each other, such as the cells of a row, stay as they come.
        merged = [(spans[0][0][1], spans[0][1])]
        for (top, bottom), run in spans[1:]:
            lowest, before = merged[-1]
            if top < lowest - _SAME_BASE * self.height:
                merged[-1] = (max(lowest, bottom), sorted(before + run))
            else:
                merged.append((bottom, run))
        yield from (run for _, run in merged)

    def _span(self, run: list[int]) -> tuple[float, float]:
        """Return how far a run reaches, downwards."""
        return -max(self.pieces[number].top for number in run), -min(self.pieces[number].bottom for number in run)


@dataclass(frozen=True)
class _Column:
    """What stands between two gutters, and its rows from top to bottom."""

    numbers: list[int]
    rows: list[Piece]
    is_wide: bool
    is_text: bool = False

    @classmethod
    def of(cls, numbers: list[int], pieces: Sequence[Piece], height: float) -> _Column:
        rows = _rows([pieces[number] for number in numbers])
        width = _width(rows)
        filled = sum(row.words >= _WORDS and row.right - row.left >= _FILLED * width for row in rows)
        is_wide = width >= _NARROWEST * height
        return cls(numbers, rows, is_wide, is_wide and len(rows) >= FEWEST and filled >= _MOST * len(rows))

    @property
    def left(self) -> float:
        return min(row.left for row in self.rows)

    @property
    def right(self) -> float:
        return max(row.right for row in self.rows)


def _width(rows: Sequence[Piece]) -> float:
    return max(row.right for row in rows) - min(row.left for row in rows)


def _rows(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces from top to bottom, those that stand beside each other as one."""
    rows: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: -piece.top):
        if rows and _are_level(rows[-1], piece):
            last = rows[-1]
            left, right = min(last.left, piece.left), max(last.right, piece.right)
            rows[-1] = Piece(left, min(last.bottom, piece.bottom), right, last.top, last.words + piece.words)
        else:
            rows.append(piece)
    return rows


def _runs_through(text: Sequence[Piece], rows: Sequence[Piece]) -> bool:
    """Tell whether the text runs on from line to line where rows begin beside it."""
    right = max(line.right for line in text) - (1 - _FULL) * _width(text)
    pitch = _pitch(text)
    runs_on = [
        before.right >= right and before.bottom - line.bottom <= _WIDE_SPACE * pitch
        for before, line in itertools.pairwise(text)
    ]
    levels = [
        runs_on[number]
        for number, line in enumerate(text[1:])
        if any(
            abs(line.bottom - row.bottom) <= _SAME_BASE * (line.top - line.bottom) or _are_level(line, row)
            for row in rows
        )
    ]
    return bool(levels) and sum(levels) >= _THROUGH * len(levels)


def _share_spaces(one: Sequence[Piece], other: Sequence[Piece]) -> bool:
    """Tell whether both have wide spaces at the same heights, as a table has between its rows."""
    spaces, others = _spaces(one), _spaces(other)
    if len(spaces) > len(others):
        spaces, others = others, spaces
    shared = sum(any(low < top and bottom < high for bottom, top in others) for low, high in spaces)
    return shared >= 2 and shared >= _ROWS * len(spaces)


def _spaces(rows: Sequence[Piece]) -> list[tuple[float, float]]:
    pitch = _pitch(rows)
    pairs = itertools.pairwise(rows)
    return [(b.top, a.bottom) for a, b in pairs if a.bottom - b.bottom > _WIDE_SPACE * pitch and a.bottom > b.top]


def _pitch(rows: Sequence[Piece]) -> float:
    """Return the usual distance from line to line, without what stands between paragraphs."""
    distances = sorted(above.bottom - below.bottom for above, below in itertools.pairwise(rows))
    return distances[len(distances) // 4]


def _are_level(one: Piece, other: Piece) -> bool:
    shared = min(one.top, other.top) - max(one.bottom, other.bottom)
    return shared > _SAME_LINE * min(one.top - one.bottom, other.top - other.bottom)


def _overlap(one: Piece, other: Piece) -> bool:
    return min(one.right, other.right) > max(one.left, other.left)


def _crosses(rule: Rule, gutters: Sequence[tuple[float, float]]) -> bool:
    return any(rule.left < left and right < rule.right for left, right in gutters)


def _with(cover: list[tuple[float, float]], left: float, right: float) -> list[tuple[float, float]]:
    """Return the intervals, which are in order and apart, with one more."""
    first = bisect_left(cover, left, key=lambda interval: interval[1])
    last = bisect_right(cover, right, key=lambda interval: interval[0])
    if first < last:
        left, right = min(left, cover[first][0]), max(right, cover[last - 1][1])
    return [*cover[:first], (left, right), *cover[last:]]
