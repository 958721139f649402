"""Source code as its syntax tree divides it: definitions, and where it is best cut."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from tree_sitter import Node

from rag_assets.chunking.grammars import code_tree
from rag_assets.chunking.structure import Sections
from rag_assets.documents.model import Document

_MAX_CODE = 4_000_000  # characters; a syntax tree takes some 50 times as much memory
_MAX_INDENT = 200  # bytes
_DEFINITION = re.compile(
    r"(?:async_)?(function|method|class|struct|interface|enum|trait|impl|module|mod|namespace|constructor|type|union)"
    r"(?:_(?:definition|declaration|item|specifier|spec|alias_declaration))?\Z"
)
_WRAPPERS = ("decorated_definition", "export_statement", "type_declaration", "template_declaration")
_LEADING = re.compile(r"comment|decorator|attribute_item|annotation")
_COMMENT_MARKS = re.compile(r"^[ \t]*(?:/\*+|\*+/|\*|//[/!]*|#+)?[ \t]*|\*+/[ \t]*$|(?:\"\"\"|''')", re.MULTILINE)
_DOC_LENGTH = 2000  # characters


@dataclass(frozen=True)
class Definition:
    """A function, class or the like; `symbol` is qualified with those around it."""

    start: int
    end: int
    depth: int
    symbol: str
    kind: str
    documentation: str


class CodeOutline:
    """Where code is best cut, and what is defined there: sorted by start, none overlapping but those around others."""

    def __init__(self, sections: Sections, definitions: list[Definition]) -> None:
        self.sections = sections
        self._definitions = definitions
        self._around: list[int] = []  # the index of the definition around each; -1 for none
        for number, definition in enumerate(definitions):
            around = number - 1
            while around >= 0 and definitions[around].end <= definition.start:
                around = self._around[around]
            self._around.append(around)

    def described(self, start: int, end: int) -> list[Definition]:
        """Return the outermost definitions that begin within a chunk, or the innermost one around it."""
        first = bisect_left(self._definitions, start, key=_start)
        inside = self._definitions[first : bisect_left(self._definitions, end, key=_start)]
        if inside:
            least = min(definition.depth for definition in inside)
            return [definition for definition in inside if definition.depth == least]
        around = first - 1
        while around >= 0 and self._definitions[around].end <= start:
            around = self._around[around]
        return [self._definitions[around]] if around >= 0 else []


def _start(definition: Definition) -> int:
    return definition.start


def code_outline(document: Document, size: int) -> CodeOutline | None:
    """Return the outline of source code for chunks of `size` characters; None for anything else."""
    if len(document.text) > _MAX_CODE:
        return None
    found = code_tree(document)
    if found is None:
        return None
    source = document.text.encode()
    walk = _Walk(source, size)
    walk.run(found[1].root_node)
    return walk.outline(document.text, _code_points(source, document.text.isascii()))


def _code_points(source: bytes, ascii_only: bool) -> Callable[[int], int]:
    """Return what turns an offset in UTF-8 into one in code points."""
    if ascii_only:
        return int
    begins = (np.frombuffer(source, dtype=np.uint8) & 0xC0) != 0x80
    points = np.concatenate(([0], np.cumsum(begins)))
    return lambda offset: int(points[offset])


@dataclass
class _Walk:
    """Visits the tree from the top, and opens only what is larger than a chunk."""

    source: bytes
    size: int
    cuts: list[tuple[int, int]] = field(default_factory=list)  # byte offset, depth
    found: list[tuple[int, int, int, str, str, str]] = field(default_factory=list)

    def run(self, root: Node) -> None:
        # A stack of our own: code that is nested ten thousand deep must not end the process.
        todo: list[tuple[Node, int, str, bool]] = [(root, 1, "", True)]
        while todo:
            node, depth, scope, cut_first = todo.pop()
            leading: Node | None = None
            previous: Node | None = None
            for number, child in enumerate(node.named_children):
                attached = previous is not None and self._attached(previous, child)
                if not attached:
                    leading = child
                if self._first_on_line(child):
                    if not attached and (number or cut_first):
                        self.cuts.append((child.start_byte, depth))
                    previous = child if _LEADING.search(child.type) else None
                inner = self._visit(child, leading or child, depth, scope)
                if child.end_byte - child.start_byte > self.size:
                    todo.append(inner)

    def _attached(self, previous: Node, child: Node) -> bool:
        """Tell whether a comment or attribute belongs to what follows: no empty line is between them."""
        return self.source[previous.end_byte : child.start_byte].count(b"\n") < 2

    def _visit(self, child: Node, leading: Node, depth: int, scope: str) -> tuple[Node, int, str, bool]:
        """Note a definition; return how the node is to be opened."""
        node = _unwrapped(child)
        match = _DEFINITION.match(node.type)
        name = _name(node, self.source) if match else ""
        body = node.child_by_field_name("body")
        if not match or not name:
            return body or node, depth + 1, scope, False
        symbol = f"{scope}.{name}" if scope else name
        kind = "method" if scope and match.group(1) == "function" else match.group(1)
        documentation = self._documentation(body, leading, child)
        self.found.append((leading.start_byte, child.end_byte, depth, symbol, kind, documentation))
        return body or node, depth + 1, symbol, False

    def _documentation(self, body: Node | None, leading: Node, child: Node) -> str:
        raw = b""
        first = body.named_children[0] if body is not None and body.named_child_count else None
        if first is not None and first.type == "expression_statement" and first.named_child_count == 1:
            string = first.named_children[0]
            raw = self.source[string.start_byte : string.end_byte] if string.type == "string" else b""
        if not raw and "comment" in leading.type:
            raw = self.source[leading.start_byte : child.start_byte]
        return _COMMENT_MARKS.sub("", raw[: 4 * _DOC_LENGTH].decode(errors="ignore")).strip(" \n\"'")

    def _first_on_line(self, node: Node) -> bool:
        column = node.start_point.column
        if column == 0:
            return True
        return column <= _MAX_INDENT and self.source[node.start_byte - column : node.start_byte].isspace()

    def outline(self, text: str, points: Callable[[int], int]) -> CodeOutline:
        cuts = sorted((points(offset), depth) for offset, depth in self.cuts)
        depths = [depth for _, depth in cuts]
        sections = Sections([offset for offset, _ in cuts], depths, depths)
        definitions = [
            Definition(points(start), points(end), depth, symbol, kind, documentation)
            for start, end, depth, symbol, kind, documentation in sorted(self.found)
        ]
        return CodeOutline(sections, definitions)


def _unwrapped(node: Node) -> Node:
    while node.type in _WRAPPERS:
        inner = node.child_by_field_name("definition") or node.child_by_field_name("declaration")
        if inner is None:
            inner = node.named_children[-1] if node.named_child_count else None
        if inner is None:
            break
        node = inner
    return node


def _name(node: Node, source: bytes) -> str:
    """Return the name of what is defined; "" for what has none, such as a function in an expression."""
    part = node.child_by_field_name("name")
    declared = node.child_by_field_name("declarator")
    while part is None and declared is not None:  # C: a function's name is within its pointers and parameters
        inner = declared.child_by_field_name("declarator")
        part = declared if inner is None else None
        declared = inner
    if part is None and node.type == "impl_item":
        part = node.child_by_field_name("type")
    if part is None:
        return ""
    return " ".join(source[part.start_byte : min(part.end_byte, part.start_byte + 200)].decode(errors="ignore").split())
