"""PDF: the text of each page, and the page numbers."""

from __future__ import annotations

import io
import re
import threading

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from pypdf import PdfReader, PdfWriter
from pypdf.errors import PyPdfError

from rag_assets.documents.building import TextBuilder, whole_file
from rag_assets.documents.model import Document, Record
from rag_assets.documents.normalize import normalize
from rag_assets.errors import ParseError

# PDFium marks a hyphen at a line's end with one of these; the word goes on in the next line.
_SOFT_BREAK = re.compile("[\x02\ufffe\u00ad]\r?\n?")
# PDFium keeps global state and must not run in two threads at once.
_LOCK = threading.Lock()


def parse_pdf(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a PDF; pages are separated by a blank line and each is a block with its number.

    A file without a text layer gives a `no_text` record.

    Raises:
        ParseError: encrypted with a password, damaged beyond repair, or no PDF at all.
    """
    with _LOCK:
        pages, title = _read(data)
    builder = TextBuilder()
    for number, page in enumerate(pages, start=1):
        builder.add("page", page, page=number)
    document: Document = builder.document(title=normalize(title).strip(), content_type="application/pdf")
    return whole_file(document, name, f"no text on any of {len(pages)} page(s): a scan needs OCR first")


def _read(data: bytes) -> tuple[list[str], str]:
    try:
        return _read_with_pdfium(data)
    except pdfium.PdfiumError as error:
        if error.err_code == pdfium_c.FPDF_ERR_PASSWORD:
            return _read_with_pdfium(_decrypted(data))
        return _read_with_pypdf(data, str(error))


def _read_with_pdfium(data: bytes) -> tuple[list[str], str]:
    document = pdfium.PdfDocument(data)
    try:
        pages = [_page_text(document, index) for index in range(len(document))]
        return pages, document.get_metadata_value("Title")
    finally:
        document.close()


def _page_text(document: pdfium.PdfDocument, index: int) -> str:
    page = document[index]
    try:
        text_page = page.get_textpage()
        try:
            return _SOFT_BREAK.sub("", text_page.get_text_range(errors="replace"))
        finally:
            text_page.close()
    finally:
        page.close()


def _decrypted(data: bytes) -> bytes:
    try:
        reader = PdfReader(io.BytesIO(data))
        if not reader.decrypt(""):
            raise ParseError("the PDF is encrypted and needs a password")
        target = io.BytesIO()
        PdfWriter(clone_from=reader).write(target)
    except PyPdfError as error:
        raise ParseError(f"the PDF is encrypted and could not be decrypted: {error}") from error
    return target.getvalue()


def _read_with_pypdf(data: bytes, reason: str) -> tuple[list[str], str]:
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise ParseError("the PDF is encrypted and needs a password")
        pages = [page.extract_text() for page in reader.pages]
        return pages, (reader.metadata.title if reader.metadata else None) or ""
    except ParseError:
        raise
    # pypdf raises many kinds of errors for damaged files; the reason is what the reader needs.
    except Exception as error:
        raise ParseError(f"the PDF is damaged: {reason}; {error}") from error
