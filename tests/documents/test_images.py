from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from PIL import Image, PngImagePlugin

from rag_assets.documents import ocr
from rag_assets.documents.parsers import images
from rag_assets.documents.registry import parse


@pytest.fixture
def engine() -> Iterator[list[bytes]]:
    """OCR that reads the width of a picture; the pictures that it was given."""
    seen: list[bytes] = []

    def width(image: bytes, language: str | None) -> str:
        seen.append(image)
        with Image.open(io.BytesIO(image)) as opened:
            return f"width {opened.width}"

    before = ocr.registered()
    ocr.use(width)
    yield seen
    ocr.use(before)


def picture(kind: str = "PNG", size: tuple[int, int] = (4, 2), **options: object) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", size).save(target, kind, **options)
    return target.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_a_picture_without_ocr_is_no_text_and_says_so(kind: str) -> None:
    for name in (f"a.{kind.lower()}", "a.txt", "a.docx"):
        (record,) = parse(picture(kind), name)
        assert record.status == "no_text", record.error
        assert "OCR" in (record.error or "")


def test_title_and_description_in_a_picture_are_its_text() -> None:
    info = PngImagePlugin.PngInfo()
    info.add_text("Title", "A plan")
    info.add_itxt("Description", "Größe of the house")
    info.add_text("Comment", "Created with GIMP")
    info.add_text("Software", "Program 1.0")
    (record,) = parse(picture(pnginfo=info), "a.png")
    assert record.document is not None, record.error
    assert record.document.text == "A plan\n\nGröße of the house"
    assert (record.document.title, record.document.content_type) == ("A plan", "image/png")


def test_exif_titles_and_descriptions_are_read() -> None:
    exif = Image.Exif()
    exif[0x010E] = "A bridge at night"
    exif[0x9C9B] = "Brücke\0".encode("utf-16-le")
    (record,) = parse(picture("JPEG", exif=exif), "a.jpg")
    assert record.document is not None, record.error
    assert record.document.text == "Brücke\n\nA bridge at night"


def test_xmp_descriptions_are_read_and_a_damaged_packet_harms_nothing() -> None:
    xmp = b'<x xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:description><a>A harbour</a></dc:description></x>'
    (record,) = parse(picture("WEBP", xmp=xmp), "a.webp")
    assert record.document is not None, record.error
    assert record.document.text == "A harbour"
    (record,) = parse(picture("WEBP", xmp=b"<broken"), "a.webp")
    assert record.status == "no_text"


def test_ocr_reads_a_picture_the_right_way_up(engine: list[bytes]) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    (record,) = parse(picture("JPEG", exif=exif), "a.jpg")
    assert record.document is not None, record.error
    assert record.document.text == "width 2"


def test_the_pages_of_a_tiff_are_pages(engine: list[bytes]) -> None:
    pages = [Image.new("RGB", (width, 2)) for width in (5, 6)]
    (record,) = parse(picture("TIFF", save_all=True, append_images=pages), "a.tiff")
    assert record.document is not None, record.error
    assert record.document.text == "width 4\n\nwidth 5\n\nwidth 6"
    assert [(block.kind, block.page) for block in record.document.blocks] == [("page", 1), ("page", 2), ("page", 3)]
    assert record.document.metadata["quality"]["pages"] == 3


def test_a_picture_that_is_too_large_is_refused_before_it_is_unpacked(
    engine: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", 7)
    (record,) = parse(picture(), "a.png")
    assert record.status == "failed"
    assert "4 x 2 pixels" in (record.error or "")
    assert not engine


@pytest.mark.parametrize("cut", [20, 40])
def test_a_damaged_picture_fails_or_is_no_text(engine: list[bytes], cut: int) -> None:
    (record,) = parse(picture()[:cut], "a.png")
    assert record.status == "failed"
    assert "damaged" in (record.error or "")
