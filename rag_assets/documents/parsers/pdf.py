"""PDF: the text of each page with its number and headings; pages that are pictures by way of an OCR engine."""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from pypdf import PasswordType, PdfReader, PdfWriter

from rag_assets.documents import ocr
from rag_assets.documents.blank import is_blank
from rag_assets.documents.building import TextBuilder, whole_file
from rag_assets.documents.languages import detect
from rag_assets.documents.model import Document, Media, Record
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.pdf_filled import Added, Place, additions, with_additions
from rag_assets.documents.parsers.pdf_hyphens import without_line_breaks
from rag_assets.documents.parsers.pdf_layout import Line, Page, drop_repeated, parts_of
from rag_assets.documents.parsers.pdf_lines import Read, read_lines
from rag_assets.documents.parsers.pdf_objects import readable_objects
from rag_assets.documents.quality import figures
from rag_assets.documents.reasons import in_words
from rag_assets.errors import ParseError
from rag_assets.printing import counted

# PDFium keeps global state and must not run in two threads at once.
_LOCK = threading.Lock()
# It says of each XFA form that it cannot draw it, which is not asked for.
logging.getLogger(pdfium.__name__).setLevel(logging.ERROR)
_NEEDS_PASSWORD = "the PDF is encrypted and needs a password: save it without one"  # nosec B105: a message
_MAX_BOOKMARKS = 5000
_OCR_DPI = 200
_OCR_MAX_PIXELS = 20e6


@dataclass
class _Pages:
    """What was read of a PDF; `unread` are the numbers of pages that are damaged."""

    pages: list[Page] = field(default_factory=list)
    title: str = ""
    contents: list[tuple[int, int, str]] = field(default_factory=list)  # bookmarks: level, page from 0, title
    unread: int = 0
    by_ocr: int = 0
    ocr_error: str = ""
    objects: int = 0  # text objects that show something
    objects_unread: int = 0  # those of them that gave no character
    places: list[list[Place | None]] = field(default_factory=list)  # of the lines of each page
    added: list[list[Added]] = field(default_factory=list)  # to each page
    columns: int = 0  # on the page that has most; 0 where no place is known

    def take(self, page: pdfium.PdfPage) -> None:
        read, (unread, objects) = _lines(page)
        self.objects_unread += unread
        self.objects += objects
        self.columns = max(self.columns, read.columns)
        self.added.append(additions(page))
        self.pages.append(read.lines)
        self.places.append(read.places)

    def leave_out(self) -> None:
        """Count a page that cannot be read."""
        self.pages.append([])
        self.places.append([])
        self.added.append([])
        self.unread += 1

    def add_what_was_added(self) -> None:
        """Put values of forms and notes into the lines, and keep those that say something new."""
        for index, added in enumerate(self.added):
            if added:
                self.pages[index], self.added[index] = with_additions(self.pages[index], self.places[index], added)


def parse_pdf(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a PDF: pages are separated by a blank line, and every block has the number of its page.

    Headings are those that the bookmarks name, or else lines in larger print. Running headers and footers are kept
    once. Pages without text go to the OCR engine where there is one. A file without any text gives a `no_text`
    record.

    Raises:
        ParseError: encrypted with a password, damaged beyond repair, or no PDF at all.
    """
    with _LOCK:
        found = _read(data)
    empty = sum(not page for page in found.pages)
    pages, dropped = drop_repeated(found.pages)
    builder = TextBuilder()
    for number, parts in enumerate(parts_of(pages, found.contents), start=1):
        for part in parts:
            builder.add("heading" if part.level else "page", part.text, max(part.level, 1), page=number)
    counts = {"pages": len(pages), "pages_without_text": empty, "repeated_lines_dropped": dropped}
    counts |= {"pages_unread": found.unread} if found.unread else {}
    counts |= {"pages_ocr": found.by_ocr} if found.by_ocr else {}
    counts |= {"columns": found.columns} if found.columns else {}
    notes, values = (sum(one.is_note is kind for page in found.added for one in page) for kind in (True, False))
    counts |= {"notes": notes} if notes else {}
    counts |= {"form_values": values} if values else {}
    if found.objects_unread:
        counts |= {"text_objects": found.objects, "text_objects_unread": found.objects_unread}
    counts |= {"pages_ocr_failed": empty} if found.ocr_error else {}
    document: Document = builder.document(
        title=normalize(found.title).strip(), content_type="application/pdf", metadata=figures(None, **counts)
    )
    media = Media("application/pdf", len(pages))
    return whole_file(document, name, "" if document.text else _why_empty(found), media)


def _why_empty(found: _Pages) -> str:
    """Return why there is no text at all; raises ParseError where there might be, had OCR not failed."""
    nothing = f"no text on any of {counted(len(found.pages), 'page')}"
    if found.ocr_error:
        raise ParseError(f"{nothing}, and {found.ocr_error}")
    if ocr.has_ocr():
        return f"{nothing}, and OCR found none"
    return f"{nothing}: a scan needs OCR first"


def _read(data: bytes) -> _Pages:
    try:
        return _read_with_pdfium(data)
    except pdfium.PdfiumError as error:
        if error.err_code in (pdfium_c.FPDF_ERR_PASSWORD, pdfium_c.FPDF_ERR_SECURITY):
            return _read_decrypted(data)
        return _read_with_pypdf(data)


def _read_with_pdfium(data: bytes) -> _Pages:
    document = pdfium.PdfDocument(data)
    try:
        with contextlib.suppress(pdfium.PdfiumError):  # a damaged form takes no page with it
            document.init_forms()  # before any page is opened; without a form it does nothing
        found = _Pages(title=document.get_metadata_value("Title"))
        for index in range(len(document)):
            try:
                _on_page(document, index, found.take)
            except pdfium.PdfiumError:
                found.leave_out()
        if found.unread and found.unread == len(document):
            raise ParseError(f"the PDF is damaged: none of its {counted(found.unread, 'page')} can be read")
        found.contents = list(itertools.islice(_bookmarks(document), _MAX_BOOKMARKS))
        found.pages = without_line_breaks(found.pages)
        # A page with notes and nothing else may be a scan all the same.
        _read_scans(document, found)
        found.add_what_was_added()
        return found
    finally:
        document.close()


def _on_page(document: pdfium.PdfDocument, index: int, read: Callable[[Any], Any]) -> Any:
    page = document[index]
    try:
        return read(page)
    finally:
        page.close()


def _lines(page: pdfium.PdfPage) -> tuple[Read, tuple[int, int]]:
    objects = readable_objects(page)
    text_page = page.get_textpage()
    try:
        text = text_page.get_text_range(errors="replace")
        unread = objects.unread(text_page, text), len(objects.shown)
        columns = objects.columns_read(text_page)
        if columns:
            blank_before = itertools.chain([False], map(is_blank, columns))
            lines = [Line(text, apart=b) for text, b in zip(columns, blank_before, strict=False) if not is_blank(text)]
            return Read(lines, [None] * len(lines)), unread
        return read_lines(text_page, text, objects.drawn), unread
    finally:
        text_page.close()


def _bookmarks(document: pdfium.PdfDocument) -> Iterator[tuple[int, int, str]]:
    for item in document.get_toc():
        target = item.get_dest()
        index = target.get_index() if target else None
        if index is not None:
            yield item.level + 1, index, item.get_title()


def _read_scans(document: pdfium.PdfDocument, found: _Pages) -> None:
    """Fill in the pages without text from the OCR engine; its failure leaves the other pages as they are."""
    scans = [index for index, page in enumerate(found.pages) if not page]
    try:
        if not scans or not ocr.has_ocr():
            return
        language = detect("\n".join(line.text for page in found.pages for line in page)).main
        for index in scans:
            text = ocr.ocr_text(_on_page(document, index, _picture), language) or ""
            found.pages[index] = [Line(line) for line in normalize(text).split("\n") if not is_blank(line)]
            found.by_ocr += bool(found.pages[index])
    except ParseError as error:
        found.ocr_error = str(error)
    except pdfium.PdfiumError as error:
        found.ocr_error = f"a page could not be rendered for OCR: {in_words(error)}"


def _picture(page: pdfium.PdfPage) -> bytes:
    width, height = page.get_size()
    scale = min(_OCR_DPI / 72, (_OCR_MAX_PIXELS / max(1.0, width * height)) ** 0.5)
    target = io.BytesIO()
    page.render(scale=scale).to_pil().save(target, "PNG")
    return target.getvalue()


def _read_decrypted(data: bytes) -> _Pages:
    """Read what pdfium cannot decrypt; an empty owner password opens a file too, but is none that a reader has."""
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.decrypt("") != PasswordType.USER_PASSWORD:
            raise ParseError(_NEEDS_PASSWORD)
        target = io.BytesIO()
        PdfWriter(clone_from=reader).write(target)
    except ParseError:
        raise
    # As below: not only its own errors, but AttributeError and the like too.
    except Exception as error:
        raise ParseError(f"the PDF is encrypted and could not be decrypted: {in_words(error)}") from error
    try:
        return _read_with_pdfium(target.getvalue())
    except pdfium.PdfiumError as error:
        raise ParseError(f"the PDF is encrypted, and damaged: {in_words(error)}") from error


def _read_with_pypdf(data: bytes) -> _Pages:
    """Read what pdfium refuses, of which it only says that the format is wrong."""
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
            raise ParseError(_NEEDS_PASSWORD)
        texts = [page.extract_text() for page in reader.pages]
        title = (reader.metadata.title if reader.metadata else None) or ""
    except ParseError:
        raise
    # pypdf raises many kinds of errors for damaged files; the reason is what the reader needs.
    except Exception as error:
        raise ParseError(f"the PDF is damaged: {in_words(error)}") from error
    pages = [[Line(line) for line in text.splitlines() if not is_blank(line)] for text in texts]
    return _Pages(pages, title)
