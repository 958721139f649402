"""Which sources were read poorly, and why, in words: one rule over their quality figures, with its thresholds.

What it says of a source is a reason to look at it, not that it is wrong: it is served like any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rag_assets.printing import counted

# Books have a blank page after the title and between parts; from one page in ten on, pages are scans or pictures.
PAGES_WITHOUT_TEXT = 0.1
# One in 500 is one in each paragraph: about every hundredth word cannot be found.
UNDECODED = 0.002
# Bullets and signs of formulas often come from fonts that name no character; a font of words makes more.
TEXT_OBJECTS_UNREAD = 0.05
# Of 25 characters that are not ASCII or more, `bench.encodings` has no wrong guess; of fewer 1.5 %, of one alone 14 %.
ENCODING_EVIDENCE = 25
# Of the running text of a page the article is most. Of 156 pages whose text people have marked, 4 lie below a half: a
# short article among many teasers. Where half an article is lost on a page that shows little else, it lies there too.
SHARE_KEPT = 0.5

_GUESS_OF_ONE, _GUESS_OF_FEW = 0.14, 0.015
FIGURES = (
    "pages_without_text",
    "pages_unread",
    "pages_ocr_failed",
    "replacement_characters",
    "text_objects_unread",
    "parts_not_read",
    "encoding_guessed",
    "share_kept",
)  # what the rule begins with: without any of these no source is poor


@dataclass(frozen=True)
class Reason:
    """Why a source is poor: by the `figure` it is counted under, in words, and by how much of its text is lost or in
    doubt, 0 to 1, as far as anybody knows."""

    figure: str
    words: str
    share: float

    def __str__(self) -> str:
        return self.words


def poor_reasons(quality: object) -> list[Reason]:
    """Return why a source with these quality figures was read poorly, worst first; none where it was not.

    A file may have a field of this name with anything in it: what are no figures say nothing.
    """
    if not isinstance(quality, Mapping):
        return []
    return sorted((*_of_pages(quality), *_of_text(quality)), key=lambda reason: -reason.share)


def _number(quality: Mapping[str, Any], figure: str) -> float:
    value = quality.get(figure)
    is_count = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return value if is_count and value is not None else 0


def _of_pages(quality: Mapping[str, Any]) -> Iterator[Reason]:
    pages, empty = _number(quality, "pages"), _number(quality, "pages_without_text")
    if not pages:
        return
    of = f"of {counted(int(pages), 'page')}"
    damaged, failed = _number(quality, "pages_unread"), _number(quality, "pages_ocr_failed")
    empty -= damaged  # which hold no text either
    if damaged:
        yield Reason("pages_unread", f"{damaged:,} {of} cannot be read", min(1.0, damaged / pages))
    if failed:
        yield Reason("pages_ocr_failed", f"OCR failed on {failed:,} {of}", min(1.0, failed / pages))
    elif empty > PAGES_WITHOUT_TEXT * pages:
        verb = "holds" if empty == 1 else "hold"
        yield Reason("pages_without_text", f"{empty:,} {of} {verb} no text", min(1.0, empty / pages))


def _of_text(quality: Mapping[str, Any]) -> Iterator[Reason]:
    lost = _share(quality, "replacement_characters", "characters_out")
    if lost >= UNDECODED:
        yield Reason("replacement_characters", f"{_percent(lost)} of the characters could not be decoded", lost)
    unread = _share(quality, "text_objects_unread", "text_objects")
    if unread >= TEXT_OBJECTS_UNREAD:
        yield Reason("text_objects_unread", f"{_percent(unread)} of the text objects gave no text", unread)
    if parts := int(_number(quality, "parts_not_read")):
        yield Reason("parts_not_read", f"{counted(parts, 'file')} inside could not be read", 0.0)
    evidence = _number(quality, "encoding_evidence")
    if quality.get("encoding_guessed") is True and evidence < ENCODING_EVIDENCE:
        words = f"the encoding is a guess ({quality.get('encoding')}) from {counted(int(evidence), 'character')}"
        yield Reason("encoding_guessed", words, _GUESS_OF_ONE if evidence <= 1 else _GUESS_OF_FEW)
    kept = quality.get("share_kept")
    if isinstance(kept, int | float) and not isinstance(kept, bool) and 0 <= kept < SHARE_KEPT:
        yield Reason("share_kept", f"{_percent(kept)} of the page was kept", 1 - kept)


def _share(quality: Mapping[str, Any], figure: str, of: str) -> float:
    return min(1.0, _number(quality, figure) / max(_number(quality, of), 1))


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 1 or not percent else f"{percent:.1f} %"
