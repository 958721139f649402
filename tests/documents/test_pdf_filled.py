"""What people add to a PDF: values filled into forms, and notes."""

from __future__ import annotations

from typing import Any

import pytest

from rag_assets.documents import ocr
from rag_assets.documents.registry import parse
from tests.support.pdf_files import IMAGE_ONLY, annotated, pdf, prints

PAGE = pdf(
    prints(
        ("Application for leave", 10, 280),
        ("Given name:", 10, 240),
        ("Country:", 10, 210),
        ("I agree", 10, 180),
        ("The first paragraph goes on", 10, 120),
        ("in its second line.", 10, 108),
        ("The second paragraph.", 10, 70),
    )
)


def field(kind: str, bottom: int, value: object = None, left: int = 120, **more: Any) -> dict[str, object]:
    names = {f"/{key}": item for key, item in more.items()}
    return {
        "/Subtype": "/Widget",
        "/FT": f"/{kind}",
        "/T": f"field {bottom} {left}",
        "/Rect": [left, bottom - 3, left + 80, bottom + 10],
        **({"/V": value} if value is not None else {}),
        **names,
    }


def note(text: str, bottom: int, kind: str = "/Text", **more: Any) -> dict[str, object]:
    names = {f"/{key}": item for key, item in more.items()}
    return {"/Subtype": kind, "/Contents": text, "/Rect": [40, bottom - 3, 60, bottom + 10], **names}


def parsed(data: bytes) -> tuple[str, dict[str, Any]]:
    (record,) = parse(data, "a.pdf")
    assert record.document is not None, record.error
    return record.document.text, record.document.metadata["quality"]


@pytest.mark.parametrize("in_form", [True, False])
def test_what_is_filled_in_stands_beside_its_label(in_form: bool) -> None:
    """A page that was taken out of its form is read like the form."""
    text, quality = parsed(annotated(PAGE, field("Tx", 240, "Zoë Ångström"), field("Tx", 210, "Perú"), fields=in_form))
    assert "Given name: Zoë Ångström" in text.splitlines()
    assert "Country: Perú" in text.splitlines()
    assert quality["form_values"] == 2


def test_of_choices_the_chosen_labels_are_read_and_of_boxes_those_that_are_checked() -> None:
    looks: dict[str, object] = {"/N": {"/Yes": {}, "/Off": {}}}
    text, _ = parsed(
        annotated(
            PAGE,
            field("Ch", 240, "p", Ff=1 << 17, Opt=[["p", "Permanent"], ["t", "Temporary"]]),
            field("Ch", 210, ["pe", "cl"], Ff=1 << 21, Opt=[["pe", "Peru"], ["bo", "Bolivia"], ["cl", "Chile"]]),
            field("Btn", 180, "/Yes", AS="/Yes", AP=looks),
            field("Btn", 280, "/Off", AS="/Off", AP=looks),
        )
    )
    lines = text.splitlines()
    assert "Given name: Permanent" in lines
    assert "Country: Peru, Chile" in lines
    assert "I agree [x]" in lines
    assert "Application for leave" in lines
    assert not {"Temporary", "Bolivia", "p", "pe"} & set(text.replace(",", " ").split())


def test_passwords_buttons_and_what_is_hidden_are_not_read() -> None:
    text, quality = parsed(
        annotated(
            PAGE,
            field("Tx", 240, "s3cret", Ff=1 << 13),
            field("Tx", 210, "unseen", F=2),
            field("Btn", 180, Ff=1 << 16, MK={"/CA": "Send now"}),
            note("unseen too", 108, F=2),
            note("of no size", 108, "/FreeText", Rect=[40, 100, 40, 100]),
            {"/Subtype": "/Popup", "/Contents": "a window", "/Rect": [0, 0, 9, 9]},
        )
    )
    plain, _ = parsed(PAGE)
    assert text == plain
    assert not {"form_values", "notes"} & quality.keys()


def test_a_password_stays_out_of_a_page_without_its_form_too() -> None:
    text, _ = parsed(annotated(PAGE, field("Tx", 240, "s3cret", Ff=1 << 13), fields=False))
    assert "s3cret" not in text


@pytest.mark.parametrize("kind", ["/Text", "/FreeText", "/Highlight", "/Stamp", "/Square"])
def test_a_note_follows_the_paragraph_that_it_stands_by(kind: str) -> None:
    text, quality = parsed(annotated(PAGE, note("Ask the works council, naïvely", 120, kind)))
    assert text.split("\n\n")[-3:] == [
        "The first paragraph goes on\nin its second line.",
        "Ask the works council, naïvely",
        "The second paragraph.",
    ]
    assert quality["notes"] == 1


def test_a_marked_passage_that_is_its_own_note_is_read_once() -> None:
    text, quality = parsed(annotated(PAGE, note("paragraph goes on in its second", 120, "/Highlight")))
    assert text.count("second") == 2
    assert "notes" not in quality


def test_a_value_of_several_lines_is_a_paragraph() -> None:
    text, _ = parsed(annotated(PAGE, field("Tx", 240, "One street\rTwo town", Ff=1 << 12)))
    assert "One street\nTwo town" in text.split("\n\n")


def test_a_page_of_nothing_but_a_filled_form_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text, quality = parsed(annotated(pdf(IMAGE_ONLY), field("Tx", 240, "Zoe"), note("Seen", 100)))
    assert text.split() == ["Zoe", "Seen"]
    # A scan is read by OCR whatever was noted on it.
    monkeypatch.setattr(ocr, "has_ocr", lambda: True)
    monkeypatch.setattr(ocr, "ocr_text", lambda picture, language: "From the picture")
    text, quality = parsed(annotated(pdf(IMAGE_ONLY), note("Seen", 100)))
    assert text == "From the picture\n\nSeen"
    assert quality["pages_ocr"] == 1
