"""The languages of a text, by its scripts and its most frequent small words: no model, no randomness.

Only texts of some length are judged, and only where one language is clearly ahead: unknown is better than wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_WINDOW = 2000  # code points
_WINDOWS = 8
_MIN_WORDS = 12
_MIN_LETTERS = 30
_MIN_SHARE = 0.14  # of a window's words; prose in every language below lies above .25
_MIN_DISTINCT = 3  # a table of the letters A and E is no Portuguese
_AHEAD = 1.3  # times the share of the second
_FEW = 0.1  # share of a window: a word in another script makes no other language
_COUNTS = 0.2  # share of the judged windows from which a language is named
_MAIN = 0.75  # share from which it is the language of the document

# One alternative is the language of nearly all text in that script.
_SCRIPTS = {
    "latin": "A-Za-z\u00c0-\u024f\u1e00-\u1eff",
    "cyrillic": "\u0400-\u052f",
    "arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff",
    "han": "\u3400-\u4dbf\u4e00-\u9fff",
    "kana": "\u3041-\u30ff",
    "ko": "\uac00-\ud7af\u1100-\u11ff",
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "he": "\u0590-\u05ff",
    "th": "\u0e00-\u0e7f",
    "hi": "\u0900-\u097f",
    "bn": "\u0980-\u09ff",
    "pa": "\u0a00-\u0a7f",
    "gu": "\u0a80-\u0aff",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
    "kn": "\u0c80-\u0cff",
    "ml": "\u0d00-\u0d7f",
    "si": "\u0d80-\u0dff",
    "lo": "\u0e80-\u0eff",
    "my": "\u1000-\u109f",
    "ka": "\u10a0-\u10ff",
    "am": "\u1200-\u137f",
    "km": "\u1780-\u17ff",
    "hy": "\u0530-\u058f",
}
_SCRIPT = {name: re.compile(f"[{letters}]") for name, letters in _SCRIPTS.items()}
_BEYOND_LATIN = re.compile("[\u0370-\u1dff\u2e80-\ufaff\ufb1d-\ufeff]")
_WORD = re.compile(r"[^\W\d_]+")

_WORDS = {
    "en": "the of and to in is that for it with as was on are be this by from or at an have not which you we but has "
    "if can will your all they their so he his her my one about what when there these more than been were may",
    "de": "der die das und ist in den von zu mit sich des auf für nicht ein eine dem im als auch es an werden aus wird",
    "fr": "le la les de des et en un une du est que dans qui pour par sur pas au avec plus ce il ne se sont vous nous",
    "es": "el la los las de y en que un una es por con para del se no su al lo como más o pero sus este está son",
    "it": "il la di e che in un una per è con del della non sono si da le dei nel alla come anche più gli ha questo",
    "pt": "o a os as de e em que um uma do da para com não é por no na se dos das mais ao como mas foi pelo são",
    "nl": "de het een van en in is dat op te met voor niet zijn aan er ook als bij door naar om wordt maar worden deze",
    "sv": "och i att det som en på är av för med den till inte har de om ett var från kan vi så eller men ska",
    "da": "og i at det som en på er af for med den til ikke har de om et var fra kan vi så eller men skal blev",
    "nb": "og i å det som en på er av for med den til ikke har de om et var fra kan vi så eller men skal ble",
    "fi": "ja on ei se että oli joka mutta ovat kun hän tai myös kuin sen voi sekä ole jos vain mukaan niin tämä",
    "pl": "i w na z się nie do to że jest o jak od po za przez dla ale są oraz tym co tego który był lub może",
    "cs": "a v na se je že z do s to o i jako pro za by k ale od po jsou byl podle nebo který která není při",
    "sk": "a v na sa je že z do s to o aj ako pre za by k ale od po sú bol podľa alebo ktorý ktorá nie pri",
    "hu": "a az és hogy nem is egy ez meg van volt csak mint vagy de már ha ki még el lehet után amely szerint",
    "ro": "de și în a la cu nu o că pe care din este un mai sau pentru se au fost prin ce sunt ca dar această",
    "hr": "je i u na se da za od su o s ne što koji kao to iz ili ali bi sam nije bio do koja biti može",
    "tr": "ve bir bu da de için ile olarak daha çok olan gibi kadar ancak sonra en değil ne var her veya göre ise",
    "id": "yang dan di dengan untuk dari ini itu pada adalah dalam tidak akan ke oleh sebagai juga atau ada dapat",
    "vi": "và của là có không được cho các trong một với những đã để người này khi từ về như đến cũng hay tại",
    "et": "ja on ei see et oli mis ka kui aga oma või ning mida seda ta kes siis nii veel pärast välja peab",
    "lv": "un ir ka no uz ar par nav bet kas tas kā pie arī lai vai gan bija tika pēc kad tiek savu līdz",
    "lt": "ir yra kad į iš su ne tai kaip bet o buvo nuo už apie dėl per po jo savo taip arba ar gali šio",
    "ca": "el la els les de i en que un una és per amb del no se al com més o però són aquest ha va dels",
}
SMALL_WORDS = {language: frozenset(words.split()) for language, words in _WORDS.items()}
# What each language in Latin letters has beside A to Z, small: letters of its alphabet and of its common loans.
LETTERS = {
    "en": "éèêëïñöü", "de": "äöüßé", "fr": "àâæçéèêëîïôœùûüÿ", "es": "áéíóúüñªº", "it": "àèéìíîòóùú",
    "pt": "áâãàçéêíóôõúüªº", "nl": "áéëèêíïóöúü", "sv": "åäöé", "da": "æøåé", "nb": "æøåéèêòôâó",
    "fi": "äöåšž", "is": "áðéíóúýþæö", "pl": "ąćęłńóśźż", "cs": "áčďéěíňóřšťúůýž", "sk": "áäčďéíĺľňóôŕšťúýž",
    "sl": "čšž", "hr": "čćđšž", "hu": "áéíóöőúüű", "ro": "ăâîșțşţ", "sq": "çë", "tr": "çğıi̇öşüâî", "id": "é",
    "et": "äöõüšž", "lv": "āčēģīķļņōŗšūž", "lt": "ąčęėįšųūž", "ca": "àçèéíïòóúü·",
}  # fmt: skip


def _by_word() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for language, words in SMALL_WORDS.items():
        for word in words:
            found[word] = (*found.get(word, ()), language)
    return found


_LANGUAGES_OF = _by_word()


@dataclass(frozen=True)
class Languages:
    """The languages of a text as ISO 639-1 codes: all that were found, most frequent first, and that of most of it."""

    all: tuple[str, ...] = ()
    main: str | None = None


def detect(text: str) -> Languages:
    """Return the languages of a text; none where they cannot be told."""
    found = [language for window in _windows(text) if (language := _language(window))]
    ordered = sorted(Counter(found).items(), key=lambda item: (-item[1], item[0]))
    main = ordered[0][0] if ordered and ordered[0][1] >= _MAIN * len(found) else None
    return Languages(tuple(language for language, count in ordered if count >= _COUNTS * len(found)), main)


def _windows(text: str) -> list[str]:
    """Return stretches from the whole length of a text: it may begin with an abstract in another language."""
    if len(text) <= _WINDOW * _WINDOWS:
        return [text[start : start + _WINDOW] for start in range(0, len(text), _WINDOW)]
    step = (len(text) - _WINDOW) // (_WINDOWS - 1)
    return [text[start : start + _WINDOW] for start in range(0, step * _WINDOWS, step)]


def _language(window: str) -> str | None:
    if window.isascii() or len(_BEYOND_LATIN.findall(window)) < _FEW * len(window):
        return _by_small_words(window)
    counts = {name: len(pattern.findall(window)) for name, pattern in _SCRIPT.items()}
    letters = sum(counts.values())
    script = max(counts, key=lambda name: counts[name])
    if counts["kana"] > 0.05 * letters:
        script = "ja"
    elif counts["han"] > 0.3 * letters:
        script = "zh"
    if letters < _MIN_LETTERS:
        return None
    if script == "latin":
        return _by_small_words(window)
    if script == "cyrillic":
        return _cyrillic(window)
    return _arabic(window) if script == "arabic" else script


def _by_small_words(window: str) -> str | None:
    words = _WORD.findall(window.lower())
    if len(words) < _MIN_WORDS:
        return None
    hits: Counter[str] = Counter()
    distinct: Counter[str] = Counter()
    for word, count in Counter(words).items():
        for language in _LANGUAGES_OF.get(word, ()):
            hits[language] += count
            distinct[language] += len(word) > 1
    if not hits:
        return None
    (best, count), (_, second) = (*hits.most_common(2), ("", 0))[:2]
    clear = distinct[best] >= _MIN_DISTINCT and count >= _AHEAD * second
    return best if clear and count >= _MIN_SHARE * len(words) else None


def _cyrillic(window: str) -> str | None:
    for language, letters in (("be", "ўЎ"), ("uk", "іїєґІЇЄҐ"), ("sr", "ђјљњћџ"), ("ru", "ыэёЫЭ")):
        if sum(map(window.count, letters)) >= 3:
            return language
    return "bg" if sum(map(window.count, "ъщ")) >= 5 else None


def _arabic(window: str) -> str:
    if sum(map(window.count, "ٹڈڑےں")) >= 3:
        return "ur"
    return "fa" if sum(map(window.count, "پچژگیک")) >= 5 else "ar"
