"""Small PDF files, written by hand."""

from __future__ import annotations

import io
from typing import cast

from pypdf import PdfReader, PdfWriter
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    FloatObject,
    NameObject,
    NumberObject,
    PdfObject,
    TextStringObject,
)


def pdf(*contents: bytes, title: str = "") -> bytes:
    """A PDF with one page for each content stream, and Helvetica as /F1 and a 1 x 1 image as /Im."""
    count = len(contents)
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(count)).encode()
    image = b"/Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray/BitsPerComponent 8/Length 1"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%s]>>" % (count, kids),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<<" + image + b">>stream\n\x80\nendstream",
    ]
    for number, content in enumerate(contents):
        resources = b"<</Font<</F1 3 0 R>>/XObject<</Im 4 0 R>>>>"
        page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Resources%s/Contents %d 0 R>>"
        objects.append(page % (resources, 6 + 2 * number))
        objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(content), content))
    body, offsets = b"%PDF-1.4\n", []
    for number, value in enumerate(objects, start=1):
        offsets.append(len(body))
        body += b"%d 0 obj%s endobj\n" % (number, value)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    trailer = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (size, len(body))
    plain = body + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + trailer
    return written(plain, title=title) if title else plain


def written(data: bytes, title: str = "", **encryption: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    if title:
        writer.add_metadata({"/Title": title})
    if encryption:
        writer.encrypt(**encryption)  # type: ignore[arg-type]
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def says(text: str) -> bytes:
    return f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode()


def prints(*lines: tuple[str, int, int]) -> bytes:
    """Text, size in points, and distance from the page's lower edge of each line."""
    return b" ".join(f"BT /F1 {size} Tf 20 {y} Td ({text}) Tj ET".encode() for text, size, y in lines)


def placed(*lines: tuple[str, float, float], size: float = 10) -> bytes:
    """Text, and how far it begins from the left and the lower edge of the page."""
    shown = (f"1 0 0 1 {x} {y} Tm ({_escaped(text)}) Tj" for text, x, y in lines)
    return f"BT /F1 {size} Tf {' '.join(shown)} ET".encode()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


IMAGE_ONLY = b"q 200 0 0 200 20 20 cm /Im Do Q"


def annotated(data: bytes, *annotations: dict[str, object], fields: bool = True) -> bytes:
    """Put annotations on the first page; those with /FT are fields of the form, or of none without `fields`."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    made = []
    for annotation in annotations:
        value = {"/Type": "/Annot", "/F": 4, **annotation}
        made.append(writer._add_object(_object(value)))
    writer.pages[0][NameObject("/Annots")] = ArrayObject(made)
    if fields and any("/FT" in annotation for annotation in annotations):
        form = {"/Fields": ArrayObject(made)}
        writer.root_object[NameObject("/AcroForm")] = _object(form)
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def drawn(content: bytes) -> bytes:
    """A page with a font /T that draws a square for the code 1, and has no name for it."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(content))))
    square = DecodedStreamObject()
    square.set_data(b"1000 0 0 0 750 750 d1 0 0 700 700 re f")
    font: dict[str, object] = {
        "/Type": "/Font",
        "/Subtype": "/Type3",
        "/FontBBox": [0, 0, 750, 750],
        "/FontMatrix": [0.001, 0, 0, 0.001, 0, 0],
    }
    font |= {"/CharProcs": {"/sq": writer._add_object(square)}, "/Encoding": {"/Differences": [1, "/sq"]}}
    font |= {"/FirstChar": 1, "/LastChar": 1, "/Widths": [1000]}
    return _with_font(writer, "/T", font)


def _with_font(writer: PdfWriter, name: str, font: dict[str, object]) -> bytes:
    fonts = cast(DictionaryObject, cast(DictionaryObject, writer.pages[0]["/Resources"])["/Font"])
    fonts[NameObject(name)] = writer._add_object(_object(font))
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def named(content: bytes, code: bytes, character: str) -> bytes:
    """A page with a font /N that is Helvetica, but for the code, which stands for the character."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(content))))
    names = DecodedStreamObject()
    names.set_data(
        b"begincmap 1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfchar <%s> <%s> endbfchar endcmap"
        % (code.hex().encode(), character.encode("utf-16-be").hex().encode())
    )
    font: dict[str, object] = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    return _with_font(writer, "/N", font | {"/ToUnicode": writer._add_object(names)})


def vertical(*columns: str, across: str = "", printed_from: int = 260) -> bytes:
    """Columns of Japanese from right to left, in a font that is not in the file; `across` in one that every viewer has.

    A column may be in pieces, divided by `|`.
    """
    shown = [f"BT /F1 10 Tf 20 20 Td ({across}) Tj ET"] if across else []
    for number, column in enumerate(columns):
        y = printed_from
        for piece in column.split("|"):
            shown.append(f"BT /V 10 Tf {270 - 17 * number} {y} Td <{piece.encode('utf-16-be').hex()}> Tj ET")
            y -= 10 * len(piece)
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("\n".join(shown).encode()))))
    descriptor: dict[str, object] = {
        "/Type": "/FontDescriptor",
        "/FontName": "/Ryumin-Light",
        "/Flags": 6,
        "/FontBBox": [-170, -331, 1024, 903],
    }
    descriptor |= {"/ItalicAngle": 0, "/Ascent": 723, "/Descent": -241, "/CapHeight": 709, "/StemV": 69}
    system: dict[str, object] = {
        "/Registry": TextStringObject("Adobe"),
        "/Ordering": TextStringObject("Japan1"),
        "/Supplement": 2,
    }
    inner: dict[str, object] = {
        "/Type": "/Font",
        "/Subtype": "/CIDFontType0",
        "/BaseFont": "/Ryumin-Light",
        "/DW": 1000,
    }
    inner |= {"/CIDSystemInfo": system, "/FontDescriptor": writer._add_object(_object(descriptor))}
    font: dict[str, object] = {
        "/Type": "/Font",
        "/Subtype": "/Type0",
        "/BaseFont": "/Ryumin-Light",
        "/Encoding": "/UniJIS-UCS2-V",
    }
    font |= {"/DescendantFonts": [writer._add_object(_object(inner))]}
    return _with_font(writer, "/V", font)


def _object(value: object) -> PdfObject:
    if isinstance(value, PdfObject):
        return value
    if isinstance(value, dict):
        return DictionaryObject({NameObject(key): _object(item) for key, item in value.items()})
    if isinstance(value, list):
        return ArrayObject([_object(item) for item in value])
    if isinstance(value, str):
        return NameObject(value) if value.startswith("/") else TextStringObject(value)
    return NumberObject(value) if isinstance(value, int) else FloatObject(value)
