from __future__ import annotations

import json
import time

import pytest

from rag_assets.documents.checksum import document_checksum
from rag_assets.documents.languages import detect
from rag_assets.documents.model import Document
from rag_assets.documents.registry import parse

PROSE = {
    "en": "The house that we have seen is one of the oldest in the town, and it was built by a man who had no money.",
    "de": "Das Haus, das wir gesehen haben, ist eines der ältesten in der Stadt, und es wurde von einem Mann ohne Geld "
    "für die Familie gebaut, die nicht mit den anderen leben wollte.",
    "fr": "La maison que nous avons vue est une des plus anciennes de la ville, et elle a été construite par un homme "
    "qui ne vivait pas avec les autres dans le centre.",
    "es": "La casa que hemos visto es una de las más antiguas de la ciudad, y fue construida por un hombre que no "
    "vivía con los otros en el centro.",
    "it": "La casa che abbiamo visto è una delle più antiche della città, ed è stata costruita da un uomo che non "
    "viveva con gli altri nel centro.",
    "pt": "A casa que vimos é uma das mais antigas da cidade, e foi construída por um homem que não vivia com os "
    "outros no centro.",
    "nl": "Het huis dat wij hebben gezien is een van de oudste in de stad, en het is gebouwd door een man die niet "
    "met de anderen wilde leven.",
    "pl": "Dom, który widzieliśmy, jest jednym z najstarszych w mieście i został zbudowany przez człowieka, który nie "
    "chciał się z nikim spotykać, ale to już było dawno.",
    "tr": "Gördüğümüz bu ev şehirdeki en eski evlerden biri ve çok parası olmayan bir adam için yapıldı, ama daha "
    "sonra her şey değil, bir bahçe de eklendi.",
    "ru": "Дом, который мы видели, один из самых старых в городе, и его построил человек, у которого не было денег.",
    "uk": "Будинок, який ми бачили, один із найстаріших у місті, і його збудувала людина, яка не мала грошей.",
    "ja": "私たちが見た家はこの町でいちばん古い家の一つで、お金のない男が建てたものです。とても静かな場所にあります。",
    "zh": "我们看到的房子是城里最古老的房子之一，是一个没有钱的人建造的，坐落在一个非常安静的地方，周围都是花园。",
    "ko": "우리가 본 집은 도시에서 가장 오래된 집 가운데 하나이며 돈이 없는 사람이 지은 것으로 아주 조용한 곳에 있다.",
    "ar": "البيت الذي رأيناه هو من أقدم البيوت في المدينة وقد بناه رجل لم يكن لديه مال في مكان هادئ جدا",
    "el": "Το σπίτι που είδαμε είναι ένα από τα παλαιότερα της πόλης και το έχτισε ένας άνθρωπος χωρίς χρήματα.",
}


def quality(data: bytes, name: str) -> dict[str, object]:
    (record,) = parse(data, name)
    assert record.document is not None, record.error
    found: dict[str, object] = record.document.metadata["quality"]
    return found


@pytest.mark.parametrize("language", sorted(PROSE))
def test_the_language_of_prose_is_told(language: str) -> None:
    assert detect(PROSE[language]).main == language
    assert detect(PROSE[language] * 30).all == (language,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello World",
        "12 34 56 " * 100,
        "a e o a e o " * 50,
        "SKU-1234 XK9 QRS " * 40,
        "lorem ipsum dolor sit amet " * 20,
    ],
)
def test_a_language_that_cannot_be_told_is_not_guessed(text: str) -> None:
    assert detect(text).all == ()
    assert detect(text).main is None


def test_a_text_in_two_languages_has_both_and_no_main_one() -> None:
    text = PROSE["en"] * 60 + "\n" + PROSE["ja"] * 120
    assert set(detect(text).all) == {"en", "ja"}
    assert detect(text).main is None


def test_a_file_says_what_came_in_and_what_was_lost() -> None:
    data = ("日本語のテキスト。" * 5).encode() + b"\xff"
    assert quality(data, "a.txt") == {
        "bytes_in": len(data),
        "characters_in": 46,
        "characters_out": 46,
        "replacement_characters": 1,
        "languages": ["ja"],
    }


def test_the_language_is_set_where_the_file_does_not_say_it() -> None:
    (record,) = parse(PROSE["de"].encode(), "a.txt")
    assert record.document is not None
    assert record.document.language == "de"
    (record,) = parse(f"---\nlang: nl\n---\n{PROSE['de']}".encode(), "a.md")
    assert record.document is not None
    assert record.document.language == "nl"
    assert record.document.metadata["quality"]["languages"] == ["de"]


def test_code_has_no_language() -> None:
    data = b'"""It is the one that we have for all of the files in this and that."""\nimport os\n'
    (record,) = parse(data, "a.py")
    assert record.document is not None
    assert record.document.language is None
    assert "languages" not in record.document.metadata["quality"]


def test_rows_of_a_collection_have_figures_only_where_something_was_lost() -> None:
    rows = [{"_id": "1", "text": PROSE["en"]}, {"_id": "2", "text": "bad \ufffd"}]
    whole, damaged = parse("\n".join(map(json.dumps, rows)).encode(), "c.jsonl")
    assert whole.document is not None
    assert damaged.document is not None
    assert "quality" not in whole.document.metadata
    assert damaged.document.metadata["quality"] == {"replacement_characters": 1, "characters_out": 5}


def test_a_field_named_quality_of_the_file_itself_is_kept() -> None:
    (record,) = parse(b"---\nquality: high\n---\n# Text", "a.md")
    assert record.document is not None
    assert record.document.metadata["quality_given"] == "high"
    assert record.document.metadata["quality"]["replacement_characters"] == 0


def test_pages_say_how_much_of_them_was_kept() -> None:
    page = b"<html><body><nav>Menu</nav><main><p>The text</p></main></body></html>"
    found = quality(page, "a.html")
    assert (found["characters_in"], found["characters_out"]) == (len(page), len("The text"))


def test_the_size_of_the_file_alone_makes_no_new_version_of_a_document() -> None:
    (first,) = parse(b"<html><body><p>The text</p><!-- built at 10:31 --></body></html>", "a.html")
    (second,) = parse(b"<html><body><p>The text</p><!-- built at 10:32:07 --></body></html>", "a.html")
    assert first.document is not None
    assert second.document is not None
    assert first.document != second.document
    assert document_checksum(first.document) == document_checksum(second.document)


def test_figures_of_a_large_collection_cost_next_to_nothing() -> None:
    rows = "\n".join(json.dumps({"_id": str(n), "text": PROSE["en"] * 10}) for n in range(5000)).encode()
    started = time.process_time()
    records = parse(rows, "c.jsonl")
    assert len(records) == 5000
    assert time.process_time() - started < 3


def test_a_document_says_its_language_from_all_of_its_length() -> None:
    document = Document(PROSE["fr"] + "\n" + PROSE["en"] * 500)
    assert detect(document.text).main == "en"
