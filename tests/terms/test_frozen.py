"""Profiles were published with the first version of terms, so what it makes of a text may never change."""

from __future__ import annotations

import hashlib
import random

import pytest

from rag_assets.terms import FIRST, prepare

WRITTEN = {
    "Replace the SKU-1234 cartridge, see C++ and C# (.NET).": "Replace the SKU 1234 SKU1234 cartridge see C and C NET",
    "João Conceição, Großhandel, ёлка; cafe\u0301": "João Conceição Großhandel ёлка cafe\u0301",
    "ＫＸ－７７２ at -40 °C, §12, 5 µm": "ＫＸ ７７２ at 40 C 12 5 µm",
    "환불은 7일 이내": "환불은 7 일 7일 이내",
    "日本語の検索 API v2": "日本 本語 語の の検 検索 API v 2 v2",
    "getUserName in net/http_client.py": "get User Name getUserName in net http client py nethttpclientpy",
    "war\u00adranty o\ufb00er zero\u200bwidth": "war ranty o\ufb00er zero width",
}
ALPHABET = "abzABZ019 \n-_./:'’#+&°§µ%@,()[]\"\u00ad\u200b\u200dàéßşİıё日本語한국어ไทยहिन्दी\u0301ＡｂﬁΩ²½"


@pytest.mark.parametrize("text", WRITTEN)
def test_the_first_version_stays_what_it_was(text: str) -> None:
    assert prepare(text, FIRST) == WRITTEN[text]


def test_the_first_version_of_thousands_of_odd_texts_stays_what_it_was() -> None:
    draw = random.Random(1)
    digest = hashlib.sha256()
    for _ in range(3000):
        text = "".join(draw.choices(ALPHABET, k=draw.randint(0, 80)))
        digest.update(prepare(text, FIRST).encode("utf-8") + b"\0")
    assert digest.hexdigest() == "62ea01f87131994d8731f3f945aabc0feab8e3bef2e4d30c0659af6db0f3323a"
