"""The text of a Word paragraph, and what hangs on it: text boxes, WordArt, notes, comments, charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rag_assets.documents.parsers.office.docx_styles import is_monospaced
from rag_assets.documents.parsers.office.math import equation
from rag_assets.documents.parsers.office.names import MC, M, W
from rag_assets.documents.parsers.safe_xml import Element, attribute, child, children

_CHARACTERS = {f"{W}tab": "\t", f"{W}br": "\n", f"{W}cr": "\n", f"{W}noBreakHyphen": "-", f"{W}ptab": "\t"}
# Deleted or moved away by a tracked change, instructions of fields, and properties.
_UNSEEN = frozenset(
    f"{W}{tag}" for tag in ("del", "moveFrom", "delText", "instrText", "delInstrText", "pPr", "rPr", "sdtPr", "rt")
)
_DRAWN = frozenset({f"{W}drawing", f"{W}pict", f"{W}object"})
_BOX = f"{W}txbxContent"
_WORD_ART = "{urn:schemas-microsoft-com:vml}textpath"  # the newer kind is a text box
_WATERMARK = "PowerPlusWaterMarkObject"


@dataclass
class Inline:
    """A paragraph's text with the elements that were met in it, in order."""

    text: str = ""  # keeps its indentation, which means something in code
    boxes: list[Element] = field(default_factory=list)  # text boxes
    word_art: list[str] = field(default_factory=list)
    graphics: list[Element] = field(default_factory=list)  # references to charts and diagrams
    notes: list[tuple[str, str]] = field(default_factory=list)  # (footnote or endnote, id)
    comments: list[str] = field(default_factory=list)
    monospaced: bool | None = None

    @property
    def line(self) -> str:
        """What it says on one line, WordArt included."""
        return " ".join(" ".join([self.text, *self.word_art]).split())


class _Writer:
    def __init__(self, is_graphic: Callable[[Element], bool]) -> None:
        self.found = Inline()
        self.is_graphic = is_graphic
        self.fonts: set[bool | None] = set()

    def fragments(self, element: Element) -> Iterator[str]:
        for inner in element:
            tag = inner.tag
            if tag == f"{W}t":
                yield inner.text or ""
            elif tag == f"{W}r":
                yield from self._run(inner)
            elif tag in _CHARACTERS:
                yield _CHARACTERS[tag]
            elif tag in _DRAWN:
                self._drawn(inner)
            elif tag == f"{MC}AlternateContent":
                yield from self.fragments(_alternative(inner))
            elif tag == f"{M}oMath":
                before = inner.getprevious()
                if before is not None and before.tag == inner.tag:
                    yield " "  # nothing else parts two equations in a row
                yield equation(inner)
            elif tag == f"{W}sym":
                yield _symbol(inner)
            elif tag not in _UNSEEN and isinstance(tag, str):
                yield from self._other(tag, inner)

    def _run(self, run: Element) -> Iterator[str]:
        properties = child(run, "rPr")
        hidden = child(properties, "vanish")
        if hidden is not None and attribute(hidden, "val", "1") not in ("0", "false"):
            return
        if any(text.text and not text.text.isspace() for text in children(run, "t")):
            self.fonts.add(is_monospaced(properties))
        yield from self.fragments(run)

    def _other(self, tag: str, element: Element) -> Iterator[str]:
        name = tag.removeprefix(W)
        if name in ("footnoteReference", "endnoteReference"):
            key = attribute(element, "id")
            self.found.notes.append((name.removesuffix("Reference"), key))
            yield f"[^{key}]"
        elif name == "commentReference":
            self.found.comments.append(attribute(element, "id"))
        else:
            yield from self.fragments(element)

    def _drawn(self, element: Element) -> None:
        for inner in element:
            if inner.tag == f"{MC}AlternateContent":
                inner = _alternative(inner)
            if inner.tag == _BOX:
                self.found.boxes.append(inner)
            elif inner.tag == _WORD_ART:
                self.found.word_art += _word_art(element, inner)
            elif self.is_graphic(inner):
                self.found.graphics.append(inner)
            else:
                self._drawn(inner)


def inline(paragraph: Element, is_graphic: Callable[[Element], bool]) -> Inline:
    """Return what a paragraph says; deleted and hidden text is left out."""
    writer = _Writer(is_graphic)
    writer.found.text = "".join(writer.fragments(paragraph)).rstrip().lstrip("\n")
    if len(writer.fonts) == 1:
        writer.found.monospaced = writer.fonts.pop()
    elif writer.fonts:
        writer.found.monospaced = False
    return writer.found


def _alternative(element: Element) -> Element:
    """Return the newer of two renderings of the same content: the older one repeats its text."""
    choices = children(element, "Choice") or children(element, "Fallback")
    return choices[0] if choices else element


def _symbol(element: Element) -> str:
    try:
        code = int(attribute(element, "char"), 16)
    except ValueError:
        return ""
    # Characters of symbol fonts stand in the private area and mean nothing without their font.
    return "" if 0xE000 <= code <= 0xF8FF or not 0x20 <= code < 0xD800 else chr(code)


def _word_art(shape: Element, path: Element) -> list[str]:
    text = path.get("string", "").strip()
    return [text] if text and not shape.get("id", "").startswith(_WATERMARK) else []
