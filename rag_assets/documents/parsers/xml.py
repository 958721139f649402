"""XML of any vocabulary as text: articles such as DocBook and JATS, feeds, drawings, and plain data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.entities import html5

from lxml import html  # type: ignore[import-untyped]

from rag_assets.documents.blank import is_blank
from rag_assets.documents.building import TextBuilder, whole_file
from rag_assets.documents.decoding import decode
from rag_assets.documents.model import Record
from rag_assets.documents.names import charset
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.html.blocks import add_blocks
from rag_assets.documents.parsers.office.properties import language_code
from rag_assets.documents.parsers.safe_xml import Element, attribute, child, children, local, parse_xml, whole_text
from rag_assets.errors import ParseError

_SVG, _XHTML = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"
_ENCODING = re.compile(rb"^\s*<\?xml[^>]*?encoding\s*=\s*[\"']([\w.\-]+)")
# What is no text of an XML file, and what may be an entity in it; an end that is missing is looked for once.
_ENTITY = re.compile(
    r"<!--(?:.*?-->|.*)|<!\[CDATA\[(?:.*?\]\]>|.*)|<!ENTITY\s+(?P<declared>[\w.:\-]+)|&(?P<name>[A-Za-z][\w.:\-]*);",
    re.DOTALL,
)
_PREDEFINED = frozenset({"amp", "lt", "gt", "quot", "apos"})
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_HTML_MARKUP = re.compile(r"<(p|br|div|a|b|i|em|strong|ul|ol|li|h[1-6]|img|span|table|pre|code|blockquote)\b", re.I)
_TITLES = frozenset({"title", "article-title", "head", "heading", "h1", "h2", "h3", "h4", "h5", "h6", "bridgehead"})
_PARAGRAPH_NAMES = "p para simpara formalpara abstract quote blockquote note caption text summary td th dd dt verse"
_PARAGRAPHS = frozenset(_PARAGRAPH_NAMES.split())
_LISTS = frozenset({"ul", "ol", "list", "itemizedlist", "orderedlist", "simplelist"})
_ITEMS = frozenset({"li", "item", "listitem", "list-item", "member"})
_TABLES = frozenset({"table", "informaltable", "tgroup"})
_ROWS = frozenset({"tr", "row"})
_CELLS = frozenset({"td", "th", "entry", "cell"})
_CODE = frozenset({"pre", "code", "programlisting", "screen", "literallayout", "code-block"})
# In other vocabularies these are names like any other: a wine has a style, too.
_UNSEEN = frozenset(
    {f"{{{space}}}{name}" for space in (_SVG, _XHTML) for name in ("style", "script")}
    | {f"{{{_SVG}}}metadata", "{urn:schemas-microsoft-com:office:office}DocumentProperties"}
)
_UNSEEN_ANYWHERE = frozenset({"indexterm"})
_PICTURES = frozenset({"image", "graphic", "inlinegraphic", "imagedata", "inlineimage", "binary"})
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_DESCRIPTION = f"{{{_RDF}}}Description"
_CONTAINERS = frozenset(f"{{{_RDF}}}{name}" for name in ("Bag", "Seq", "Alt"))
_BASE64 = re.compile(r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])[A-Za-z0-9+/_\-]++={0,2}")
_LEAST_LINE = 40  # characters of all lines but the last
_LEAST_ENCODED = 100  # characters: what is shorter may be a number or a name
_ENTRIES = frozenset({"item", "entry"})
_ENTRY_TEXTS = ("encoded", "content", "description", "summary")
_MAX_NAMES = 200  # attributes of an element that is only attributes


def parse_xml_file(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse XML: titles become headings, running text paragraphs, and elements of data `name: value` lines.

    Raises:
        ParseError: not well formed; the message says at which line.
    """
    root = _root(data, charset(content_type))
    builder = TextBuilder()
    if local(root) in ("rss", "feed") or (local(root) == "RDF" and root.find("{*}channel") is not None):
        title = _feed(root, builder)
    else:
        _Walker(builder).block(root, 1)
        title = _title(root)
    language = language_code(attribute(root, "lang"))
    document = builder.document(content_type="application/xml", title=title, language=language)
    return whole_file(document, name, "the XML holds no text")


def _root(data: bytes, declared: str | None) -> Element:
    try:
        return parse_xml(data, "the file", entities=True)
    except ParseError:
        # The declaration may name another encoding than the file is in, and a DTD that is not here may name entities.
        text = _DECLARATION.sub("", normalize(decode(data, declared or _declared(data))))
        return parse_xml(_with_entities(text).encode(), "the file", entities=True)


def _declared(data: bytes) -> str | None:
    found = _ENCODING.match(data)
    # A declaration that can be read byte by byte is in no wide encoding, whatever it says.
    return None if found is None or found[1].lower().startswith((b"utf-16", b"utf-32")) else found[1].decode()


def _with_entities(text: str) -> str:
    """Return XML in which entities that it does not declare are the characters that HTML has under these names.

    One that HTML does not know, either, stays as it is written.
    """
    declared = {*_PREDEFINED, *(found["declared"] for found in _ENTITY.finditer(text) if found["declared"])}

    def known(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None or name in declared:
            return found[0]
        characters = html5.get(f"{name};")
        return "".join(f"&#{ord(one)};" for one in characters) if characters else f"&amp;{name};"

    return _ENTITY.sub(known, text)


def _title(root: Element) -> str:
    for element in root.iter("{*}title", "{*}article-title", "{*}teiHeader"):
        if local(element) in _TITLES:
            return normalize(whole_text(element))
    return ""


class _Walker:
    def __init__(self, builder: TextBuilder) -> None:
        self.builder = builder
        self.fields: list[str] = []

    def block(self, element: Element, level: int) -> None:
        """Append an element and what is in it; `level` is that of the headings directly in it."""
        self._children(element, level)
        self._flush()

    def _flush(self) -> None:
        self.builder.add("paragraph", "\n".join(self.fields))
        self.fields.clear()

    def _children(self, element: Element, level: int) -> None:
        if not len(element) or _is_mixed(element):
            self._leaf(element)
            return
        self._described(element)
        for inner in element:
            name = local(inner)
            if name in _TITLES and not len(children(inner, "title")):
                self._flush()
                self.builder.add("heading", whole_text(inner), level=min(level, 9))
            elif name and inner.tag not in _UNSEEN and name not in _UNSEEN_ANYWHERE:
                self._inner(name, inner, level)

    def _inner(self, name: str, element: Element, level: int) -> None:
        if name in _TABLES and (lines := list(_table_lines(element))):
            self._flush()
            title = child(element, "title")
            self.builder.add("paragraph", whole_text(title))
            self.builder.add("table", "\n".join(lines))
        elif name in _LISTS and any(local(item) in _ITEMS for item in element):
            self._flush()
            self.builder.add("list", "\n".join(_list_lines(element, "")))
        elif name in _CODE:
            self._flush()
            self.builder.add("code", "".join(element.itertext()))
        elif len(element) == 1 and element[0].tag in _CONTAINERS and not any(len(item) for item in element[0]):
            values = [text for item in element[0] if not is_blank(text := whole_text(item))]
            self.fields += [f"{name}: {', '.join(values)}"] if values else []
        else:
            contained = len(element) and not _is_mixed(element)
            self._children(element, level + 1 if contained and _has_title(element) else level)
            if contained:
                self._flush()

    def _described(self, element: Element) -> None:
        """Append what attributes say of what RDF describes, but for the names of these things."""
        for key, value in element.attrib.items() if element.tag == _DESCRIPTION else ():
            if not is_blank(value) and not key.startswith((f"{{{_RDF}}}", "{http://www.w3.org/XML/")):
                self.fields.append(f"{key.rpartition('}')[2]}: {value}")

    def _leaf(self, element: Element) -> None:
        """Append an element of running text: as a paragraph, or as a field where its name says what it is."""
        name, text = local(element), whole_text(element)
        if _is_encoded(element, text):
            return
        if name in _PARAGRAPHS or len(element):
            self._flush()
            self.builder.add("paragraph", text)
        elif not is_blank(text):
            self.fields.append(f"{name}: {text}")
        elif element.tag == _DESCRIPTION:
            self._described(element)
        elif element.attrib and name not in _PICTURES:
            values = [
                f"{key.rpartition('}')[2]}={value}" for key, value in element.attrib.items() if not is_blank(value)
            ]
            if values:
                self.fields.append(f"{name}: {', '.join(values[:_MAX_NAMES])}")


def _is_encoded(element: Element, text: str) -> bool:
    """Tell the bytes of a picture or another file from words."""
    kind = attribute(element, "content-type")
    if kind and not kind.startswith("text/") and not len(element) and local(element) == "binary":
        return True
    lines = text.split()
    return (
        len(text) >= _LEAST_ENCODED
        and all(len(line) >= _LEAST_LINE for line in lines[:-1])
        and _BASE64.fullmatch("".join(lines)) is not None
    )


def _is_mixed(element: Element) -> bool:
    """Tell an element with text of its own beside its children: running text, with phrases marked in it."""
    texts = [element.text, *(inner.tail for inner in element)]
    return any(text and not is_blank(text) for text in texts)


def _has_title(element: Element) -> bool:
    return any(local(inner) in _TITLES for inner in element) or any(
        local(inner) == "info" and child(inner, "title") is not None for inner in element
    )


def _table_lines(table: Element) -> Iterator[str]:
    for row in table.iter():
        if local(row) in _ROWS:
            cells = [whole_text(cell) for cell in row if local(cell) in _CELLS]
            if any(cells):
                yield " | ".join(cells)


def _list_lines(element: Element, indent: str) -> Iterator[str]:
    for item in element:
        if local(item) not in _ITEMS:
            continue
        nested = [inner for inner in item if local(inner) in _LISTS]
        parts = [item.text or ""]
        for inner in item:
            parts += ["" if inner in nested else f" {whole_text(inner)} ", inner.tail or ""]
        text = " ".join("".join(parts).split())
        if text:
            yield f"{indent}- {text}"
        for inner in nested:
            yield from _list_lines(inner, indent + "  ")


def _feed(root: Element, builder: TextBuilder) -> str:
    """Append an RSS or Atom feed: a section for each entry; return the feed's title."""
    channel = child(root, "channel")
    top = root if channel is None else channel
    title = normalize(whole_text(child(top, "title")))
    builder.add("heading", title, level=1)
    for name in ("description", "subtitle"):
        _add_markup(builder, child(top, name))
    # In RSS 1.0 the entries stand beside the channel.
    entries = [*top] if top is root else [*top, *root]
    for entry in [inner for inner in entries if local(inner) in _ENTRIES]:
        builder.add("heading", whole_text(child(entry, "title")), level=2)
        date = next((whole_text(inner) for inner in entry if local(inner) in ("pubDate", "published", "updated")), "")
        builder.add("paragraph", date)
        # The full text where there is one, and else the summary of it.
        texts = (child(entry, name) for name in _ENTRY_TEXTS)
        _add_markup(builder, next((text for text in texts if text is not None and whole_text(text)), None))
    return title


def _add_markup(builder: TextBuilder, element: Element | None) -> None:
    """Append text that may be escaped HTML, or XHTML in place."""
    if element is None:
        return
    text = "".join(element.itertext()).strip()
    if len(element):
        text = html.tostring(element, encoding="unicode", with_tail=False)
    if not _HTML_MARKUP.search(text):
        builder.add("paragraph", text)
        return
    page = html.document_fromstring(
        f"<body>{normalize(text)}</body>".encode(), parser=html.HTMLParser(encoding="utf-8")
    )
    add_blocks(page, builder)
