"""Pictures: the text that optical character recognition finds, and what the picture says about itself."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator

from PIL import Image, ImageOps, UnidentifiedImageError

from rag_assets.documents.blank import is_blank
from rag_assets.documents.building import TextBuilder, whole_file
from rag_assets.documents.model import Document, Media, Record
from rag_assets.documents.normalize import normalize
from rag_assets.documents.ocr import has_ocr, ocr_text
from rag_assets.documents.parsers.safe_xml import local, parse_xml, whole_text
from rag_assets.documents.quality import QUALITY
from rag_assets.documents.reasons import in_words
from rag_assets.errors import ParseError

MAX_PIXELS = 100_000_000  # a third of a gigabyte in memory
MAX_FRAMES = 200  # pages of a TIFF
# MPO is a JPEG file with further pictures, as many phones make it, behind the one that all programs show.
_MEDIA = {"PNG": Media("image/png"), "JPEG": Media("image/jpeg"), "MPO": Media("image/jpeg")}
_PNG_FIELDS = frozenset({"Title", "Description", "Caption", "Comment"})
_EXIF_FIELDS = {0x9C9B: "title", 0x010E: "description", 0x9C9F: "subject", 0x9C9C: "comment"}
_XMP_FIELDS = frozenset({"title", "description", "Headline", "AltTextAccessibility", "ExtDescrAccessibility"})
# What programs and cameras write into a description that nobody gave.
_MADE_BY = re.compile(
    r"(created|made|generated|edited|saved) (with|by|using|in)\b|screenshot$|.{0,3}$|[A-Z0-9 ]*DIGITAL CAMERA", re.I
)


def parse_image(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse a picture: title and description from its metadata, and text from OCR where that is set up.

    Raises:
        ParseError: damaged, not a picture, or of more than 100 megapixels.
    """
    with warnings.catch_warnings():
        # Its own warnings about sizes and damaged metadata: the size is checked here.
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(data)) as image:
                media = _MEDIA.get(image.format or "")
                return whole_file(_document(image), name, "a picture without text: reading one needs OCR", media)
        except UnidentifiedImageError as error:
            raise ParseError("the picture is damaged, or of a kind that is not known here") from error
        except (Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
            raise ParseError(f"the picture is damaged: {in_words(error)}") from error


def _document(image: Image.Image) -> Document:
    if image.width * image.height > MAX_PIXELS:
        raise ParseError(f"the picture has {image.width} x {image.height} pixels, more than {MAX_PIXELS:,}")
    builder = TextBuilder()
    title, descriptions = _said(image)
    builder.add("heading", " ".join(title.split()))
    for description in descriptions:
        builder.add("paragraph", description)
    counts = _recognised(image, builder) if has_ocr() else {}
    kind = Image.MIME.get(image.format or "", "application/octet-stream")
    return builder.document(title=title, content_type=kind, metadata={QUALITY: counts} if counts else {})


def _recognised(image: Image.Image, builder: TextBuilder) -> dict[str, int]:
    """Append what OCR reads, for each page of a TIFF; return the quality figures."""
    frames = min(getattr(image, "n_frames", 1), MAX_FRAMES) if image.format == "TIFF" else 1
    empty = 0
    for number in range(1, frames + 1):
        image.seek(number - 1)
        text = ocr_text(_png(image)) or ""
        empty += is_blank(text)
        builder.add("page" if frames > 1 else "paragraph", text, page=number if frames > 1 else None)
    return {"pages": frames, "pages_without_text": empty, "pages_ocr": frames - empty}


def _png(image: Image.Image) -> bytes:
    if image.width * image.height > MAX_PIXELS:
        raise ParseError(f"a page has {image.width} x {image.height} pixels, more than {MAX_PIXELS:,}")
    target = io.BytesIO()
    # Cameras store which side is up beside the pixels.
    upright = ImageOps.exif_transpose(image)
    upright.convert("RGB" if upright.mode not in ("1", "L", "RGB") else upright.mode).save(target, "PNG")
    return target.getvalue()


def _said(image: Image.Image) -> tuple[str, list[str]]:
    """Return the title and the descriptions in the metadata, each once."""
    # Metadata are as often damaged as pictures are, and none is worth losing the rest of them.
    found: dict[str, str] = {}
    for read in (_png_fields, _exif_fields, _xmp_fields):
        with contextlib.suppress(Exception):
            for name, value in read(image):
                found.setdefault(name, value)
    title = found.pop("title", "")
    seen = {title: None, **dict.fromkeys(value for value in found.values() if not _MADE_BY.match(value))}
    return title, [text for text in seen if text and text != title]


def _png_fields(image: Image.Image) -> Iterator[tuple[str, str]]:
    for name, value in image.info.items():
        if isinstance(value, str) and str(name).capitalize() in _PNG_FIELDS:
            yield str(name).lower(), _clean(value)


def _exif_fields(image: Image.Image) -> Iterator[tuple[str, str]]:
    exif = image.getexif()
    for tag, name in _EXIF_FIELDS.items():
        value = exif.get(tag)
        if isinstance(value, (bytes, tuple)):
            value = bytes(value).decode("utf-16-le", "ignore")
        if isinstance(value, str) and _clean(value):
            yield name, _clean(value)


def _xmp_fields(image: Image.Image) -> Iterator[tuple[str, str]]:
    packet = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp")
    if not packet:
        return
    data = packet.encode() if isinstance(packet, str) else packet
    for element in parse_xml(data[data.find(b"<") : data.rfind(b">") + 1], "the XMP packet").iter():
        if local(element) in _XMP_FIELDS and whole_text(element):
            yield local(element).lower(), _clean(whole_text(element))


def _clean(text: str) -> str:
    return normalize(text).strip()
