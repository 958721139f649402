"""Is text that does not say its encoding read as it was written, in many languages, encodings and lengths?

python -m bench.encodings --messages DIR [--half choose|report] [--samples N] [--misses N]

`DIR` holds gettext catalogues, `**/LANGUAGE/LC_MESSAGES/*.mo`, as programs in many languages bring them (Django, for
example). Their sentences, put together and cut to 12, 50, 200 and 1,000 bytes, are written in every encoding that is
in use for their language and can hold them. A sample counts as right when its text comes out letter by letter: what
the encoding is called does not matter. Languages and sentences are halved: whoever chooses a threshold looks at
`choose`, and `report` has other languages and other sentences. Libraries that are installed are asked, too.
"""

from __future__ import annotations

import argparse
import gettext
import importlib
import random
import re
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common import show
from rag_assets.documents.decoding import decode
from rag_assets.errors import ParseError

LENGTHS = (12, 50, 200, 1000)  # bytes
_WESTERN = "cp1252 iso8859-1 iso8859-15 mac_roman cp850"
_CENTRAL = "cp1250 iso8859-2 cp852"
_BALTIC = "cp1257 iso8859-13 iso8859-4"
_CYRILLIC = "cp1251 koi8-r iso8859-5 cp866"
# By groups that are reported together; the first half of each group's languages is for choosing.
LANGUAGES = {
    "Western": dict.fromkeys(["de", "fr", "es", "pt", "it", "nl", "sv", "da", "nb", "fi", "ca", "is"], _WESTERN),
    "Central European": dict.fromkeys(["pl", "cs", "hr", "hu", "sk", "sl", "ro"], _CENTRAL),
    "Baltic": dict.fromkeys(("lt", "lv", "et"), _BALTIC),
    "Cyrillic": {"ru": _CYRILLIC, "bg": _CYRILLIC, "uk": "cp1251 koi8-u iso8859-5", "sr": "cp1251 iso8859-5",
                 "mk": "cp1251 iso8859-5", "be": "cp1251 iso8859-5"},
    "Greek": {"el": "cp1253 iso8859-7"},
    "Turkish": {"tr": "cp1254 iso8859-9", "az": "cp1254"},
    "Hebrew": {"he": "cp1255 iso8859-8"},
    "Arabic": {"ar": "cp1256 iso8859-6", "fa": "cp1256"},
    "Thai": {"th": "cp874"},
    "Chinese": {"zh_Hans": "gbk gb18030", "zh_Hant": "big5"},
    "Japanese": {"ja": "shift_jis euc_jp iso2022_jp"},
    "Korean": {"ko": "euc_kr"},
}  # fmt: skip
_WIDE = ("utf-16-le", "utf-16-be")
_PLACEHOLDER = re.compile(r"%(?:\([^)]*\))?[-+# 0-9.]*[a-zA-Z%]|\{[^{}]*\}|<[^<>]*>|&\w+;")


@dataclass(frozen=True)
class Sample:
    """A text, the bytes it was written as, and what it is an example of."""

    group: str
    language: str
    encoding: str
    length: int
    text: str
    data: bytes


def sentences(folder: Path, language: str) -> list[str]:
    """The sentences of a language that are not all ASCII, without what programs put into them, in a fixed order."""
    found: dict[str, None] = {}
    for file in sorted(folder.glob(f"**/{language}/LC_MESSAGES/*.mo")):
        with file.open("rb") as stream:
            catalogue = gettext.GNUTranslations(stream)._catalog  # type: ignore[attr-defined]
        for key, message in catalogue.items():
            if not key:
                continue  # what programs say of the catalogue
            text = " ".join(_PLACEHOLDER.sub("", message).split())
            if len(text) >= 8 and not text.isascii():
                found[text] = None
    return sorted(found, key=lambda text: zlib.crc32(text.encode()))


def samples(folder: Path, half: str, count: int) -> Iterator[Sample]:
    """At most `count` samples of each language, encoding and length, of this half of languages and sentences."""
    chosen = half == "choose"
    for group, languages in LANGUAGES.items():
        for position, (language, encodings) in enumerate(languages.items()):
            if len(languages) > 2 and (position % 2 == 0) != chosen:
                continue
            own = [text for text in sentences(folder, language) if (zlib.crc32(text.encode()) % 2 == 0) == chosen]
            for encoding in (*encodings.split(), *_WIDE):
                for length in LENGTHS:
                    yield from _cut(group, language, encoding, length, own, count)


def _cut(group: str, language: str, encoding: str, length: int, texts: Sequence[str], count: int) -> Iterator[Sample]:
    texts = [text for text in texts if _holds(encoding, text)]
    shuffler = random.Random(f"{language} {encoding} {length}")
    for _ in range(count if texts else 0):
        parts = shuffler.sample(texts, len(texts))
        text = "\n".join(parts)[: length + 1]
        while len(text.encode(encoding)) > length:
            text = text[:-1]
        # What is all ASCII says nothing about its encoding.
        if not text.isascii() and text.strip():
            yield Sample(group, language, encoding, length, text, text.encode(encoding))


def _holds(encoding: str, text: str) -> bool:
    try:
        return text.encode(encoding).decode(encoding) == text
    except UnicodeError:
        return False


Reader = Callable[[bytes], str | None]


def _product(data: bytes) -> str | None:
    try:
        return decode(data)
    except ParseError:
        return None


def _decoded(data: bytes, encoding: str | None) -> str | None:
    try:
        return data.decode(encoding) if encoding else None
    except (UnicodeDecodeError, LookupError):
        return None


def readers() -> dict[str, Reader]:
    """The product, and the libraries that are installed."""
    found: dict[str, Reader] = {"rag-assets": _product}
    for name in ("charset_normalizer", "chardet", "cchardet"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        found[f"{name} {library.__version__}"] = _reader(library.detect)
    return found


def _reader(detect: Callable[[bytes], dict[str, str | None]]) -> Reader:
    return lambda data: _decoded(data, detect(data)["encoding"])


def _evidence(sample: Sample) -> str:
    """How many characters a guess can go by, in classes; UTF-16 is told by its bytes."""
    count = len(sample.text.encode("ascii", "replace")) - len(sample.text.encode("ascii", "ignore"))
    if sample.encoding in _WIDE:
        return "in UTF-16"
    return "1" if count == 1 else "2 to 24" if count < 25 else "25 and more"


def _percent(right: int, of: int) -> str:
    return f"{100 * right / of:.1f}" if of else ""


def main() -> None:
    """Print the share of samples that come out right, by group and length, for each reader."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=Path, required=True)
    parser.add_argument("--half", choices=("choose", "report"), default="report")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--misses", type=int, default=0, help="show so many samples that the product reads wrongly")
    given = parser.parse_args()
    all_samples = list(samples(given.messages, given.half, given.samples))
    milliseconds: dict[str, float] = {}
    columns: dict[str, dict[tuple[str, object], tuple[int, int]]] = {}
    misses: list[tuple[Sample, str | None]] = []
    for name, reader in readers().items():
        counts: dict[tuple[str, object], list[int]] = defaultdict(lambda: [0, 0])
        begin = time.perf_counter()
        for sample in all_samples:
            read = reader(sample.data)
            if read != sample.text and name == "rag-assets":
                misses.append((sample, read))
            for key in (
                ("all", ""),
                ("bytes", sample.length),
                ("not ASCII:", _evidence(sample)),
                ("group", sample.group),
                ("encoding", sample.encoding),
            ):
                counts[key][0] += read == sample.text
                counts[key][1] += 1
        milliseconds[name] = 1000 * (time.perf_counter() - begin) / len(all_samples)
        columns[name] = {key: (right, of) for key, (right, of) in counts.items()}
    for sample, read in random.Random(1).sample(misses, min(given.misses, len(misses))):
        print(sample.language, sample.encoding, sample.length, repr(sample.text[:60]), "->", repr((read or "")[:60]))
    order = ["all", "bytes", "not ASCII:", "group", "encoding"]
    rows = [
        (f"{kind} {which}".strip(), f"{of:,}", *(_percent(*column[(kind, which)]) for column in columns.values()))
        for (kind, which), (_, of) in sorted(
            next(iter(columns.values())).items(), key=lambda item: order.index(item[0][0])
        )
    ]
    rows.append(("ms a sample", "", *(f"{value:.2f}" for value in milliseconds.values())))
    show(f"right, in %: {given.half}", ["of", "samples", *columns], rows)


if __name__ == "__main__":
    main()
