"""Text that does not say its encoding, and who is believed where several say one."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.documents.decoding import decode, reading
from rag_assets.documents.registry import parse
from rag_assets.errors import ParseError

POLISH = "Zażółć gęślą jaźń, powiedział król do swojej żony i wyszedł na ulicę."
SENTENCES = [
    ("cp1250", POLISH),
    ("iso8859-2", POLISH),
    ("cp852", POLISH),
    ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy a nikdo ho neslyšel."),
    ("iso8859-2", "Šišmiš leti noću, a đaci uče čitati i pišu zadaću svakoga dana."),
    ("cp1257", "Ąžuolas žydi anksti, o šiltą vasarą čia būna daug svečių."),
    ("iso8859-13", "Latviešu valodā ir daudz garu patskaņu, un tos raksta ar garumzīmēm."),
    ("cp1252", "Não há nada mais bonito do que o coração de uma criança."),
    ("mac_roman", "Die Bücher über große Vögel stehen schön im Regal, dafür müßte man zählen."),
    ("cp850", "El niño comió mañana y después jugó con la pelota de su compañero."),
    ("cp1251", "Съешь же ещё этих мягких французских булок, да выпей чаю."),
    ("koi8-r", "Съешь же ещё этих мягких французских булок, да выпей чаю."),
    ("cp866", "Съешь же ещё этих мягких французских булок, да выпей чаю."),
    ("cp1253", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία και γράφω στα ελληνικά."),
    ("cp1254", "Pijamalı hasta yağız şoföre çabucak güvendi ve ağladı."),
    ("cp1255", "דג סקרן שט בים מאוכזב ולפתע מצא חברה."),
    ("cp1256", "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر."),
    ("cp874", "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน"),
    ("big5", "天地玄黃，宇宙洪荒。日月盈昃，辰宿列張。"),
    ("euc_jp", "保証期間は二年です。返品は十四日以内にお願いします。"),
    ("iso2022_jp", "保証期間は二年です。返品は十四日以内にお願いします。"),
    ("euc_kr", "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다."),
    ("utf-16-le", "Съешь же ещё этих мягких французских булок, да выпей чаю."),
    ("utf-16-be", "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน"),
    ("utf-16-le", "列表是空的，并且不允许为空。请再试一次，谢谢。\n"),
]


@pytest.mark.parametrize(("encoding", "text"), SENTENCES)
def test_a_sentence_is_read_in_the_encoding_that_makes_words_of_it(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("gbk", "退款申请处理"), ("gbk", "保修期为两年"), ("cp1252", "contrataçãoo"), ("cp1251", "Добрый день!")],
)
def test_twelve_bytes_are_read(encoding: str, text: str) -> None:
    assert len(text.encode(encoding)) == 12
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize(
    "text",
    ["10 µm ± 2 °C", "§ 12 Abs. 3", "Preis: 100 £", "1 × 2 ÷ 3", "5 € each", "© 2020 Smith", "José", "Größe"],
)
def test_a_few_signs_and_names_are_those_of_a_western_machine(text: str) -> None:
    assert decode(text.encode("cp1252")) == text


@pytest.mark.parametrize("tail", [b"Gr\xc3", b"Gr\xe2\x82", b"Gr\xf0\x9f\x98"])
@pytest.mark.parametrize("lines", [1, 2, 12, 60])
def test_utf_8_that_was_cut_within_a_character_loses_that_alone(tail: bytes, lines: int) -> None:
    text = "Zeile über eins\n" * lines
    assert decode(text.encode() + tail) == f"{text}Gr\ufffd"
    assert decode("ü".encode()[1:] + text.encode()) == f"\ufffd{text}"


@pytest.mark.parametrize("foreign", ["cp1252", "cp1251", "gbk", "cp1250"])
def test_lines_of_another_encoding_among_utf_8_are_read_line_by_line(foreign: str) -> None:
    own = {"cp1252": "Größe und Höhe", "cp1251": "Привет, как дела?", "gbk": "保修期为两年", "cp1250": POLISH}[foreign]
    lines = [("Die Tür schließt nicht: 日本語も少し。", "utf-8"), (own, foreign), ("ASCII only", "ascii")] * 4
    assert decode(b"\n".join(text.encode(name) for text, name in lines)) == "\n".join(text for text, _ in lines)


@given(
    st.lists(st.tuples(st.sampled_from(["保修期为两年", "退款申请处理", "请联系客服", "x"]), st.booleans()), min_size=8)
)
def test_lines_of_two_encodings_in_any_order_are_read_where_the_other_is_stated(lines: list[tuple[str, bool]]) -> None:
    text = "\n".join(line for line, _ in lines)
    with reading("gbk"):
        found = decode(b"\n".join(line.encode("gbk" if is_gbk else "utf-8") for line, is_gbk in lines))
    if sum(not is_gbk and not line.isascii() for line, is_gbk in lines) * 10 >= len(lines):
        assert found == text


def test_a_line_of_both_is_read_run_by_run() -> None:
    assert decode("Grüße aus Köln, ".encode() + "Grüße aus Düsseldorf".encode("cp1252")) == (
        "Grüße aus Köln, Grüße aus Düsseldorf"
    )


def test_a_foreign_word_in_a_long_text_in_utf_8_is_read_and_damage_is_marked() -> None:
    text = "Die Tür ist grün und schön. Wir können sie für Sie öffnen.\n" * 9
    assert decode(text.encode() + "Sie heißt José.".encode("cp1252")) == text + "Sie heißt José."
    assert decode(text.encode() + b"Sie hei\xc3 Jos\xc3") == text + "Sie hei\ufffd Jos\ufffd"


def _one(name: str, data: bytes, content_type: str | None = None, encoding: str | None = None) -> str:
    (record,) = parse(data, name, content_type, encoding)
    assert record.document is not None, record.error
    return record.document.text


def test_what_is_stated_of_a_root_holds_for_what_says_nothing_and_wins_over_no_declaration() -> None:
    cyrillic, stated = "Привет, мир", "koi8-r"
    raw, other = cyrillic.encode("koi8-r"), cyrillic.encode("cp1251")
    assert _one("a.txt", raw, encoding=stated) == cyrillic
    assert _one("a.txt", other, "text/plain; charset=windows-1251", stated) == cyrillic
    assert _one("a.html", b"<p>" + raw, encoding=stated) == cyrillic
    assert _one("a.html", b'<meta charset="windows-1251"><p>' + other, encoding=stated) == cyrillic
    meta = b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251"><p>'
    assert _one("a.html", meta + other, encoding=stated) == cyrillic
    assert (
        _one("a.xml", b'<?xml version="1.0" encoding="windows-1251"?><p>' + other + b"</p>", None, stated) == cyrillic
    )
    assert _one("a.xml", b"<p>" + raw + b"</p>", None, stated) == cyrillic
    assert _one("a.txt", cyrillic.encode("utf-16"), encoding=stated) == cyrillic
    assert _one("a.txt", cyrillic.encode("utf-8-sig"), encoding=stated) == cyrillic
    assert _one("a.txt", cyrillic.encode(), encoding=stated) == cyrillic


def test_what_is_stated_holds_within_archives_and_for_what_is_in_seven_bits() -> None:
    with reading("hz"):
        assert decode(b"~{<:Ky2;S{#,NpJ)l6HK!#~}") == "己所不欲，勿施於人。"
    with reading("koi8-r"), reading():
        assert decode("Мир".encode("koi8-r")) == "Мир"


def _quality(data: bytes, name: str = "a.txt", **said: str) -> dict[str, object]:
    (record, *_) = parse(data, name, **said)
    assert record.document is not None
    quality: dict[str, object] = record.document.metadata.get("quality", {})
    return {key: value for key, value in quality.items() if key.startswith("encoding")}


def test_quality_says_which_encoding_it_was_and_whether_that_is_a_guess() -> None:
    data = "Zażółć gęślą jaźń".encode("cp1250")
    assert _quality(data) == {"encoding": "cp1250", "encoding_guessed": True, "encoding_evidence": 9}
    assert _quality(data, encoding="cp1250") == {"encoding": "cp1250"}
    assert _quality(data, content_type="text/plain; charset=cp1250") == {"encoding": "cp1250"}
    assert _quality(POLISH.encode()) == {} == _quality(b"plain")
    assert _quality(POLISH.encode("utf-16")) == {"encoding": "utf-16-le"}


def test_rows_say_so_where_it_matters_to_them() -> None:
    data = "question,answer\nGdzie?,Żółć gęślą\nWhere,Here\n".encode("cp1250")
    guessed, ascii_only = (record.document for record in parse(data, "a.csv"))
    assert guessed is not None
    assert ascii_only is not None
    assert guessed.metadata["quality"]["encoding_guessed"] is True
    assert "quality" not in ascii_only.metadata


@given(st.binary(max_size=200), st.sampled_from([None, "cp1250", "utf-16", "gbk", "hz"]))
def test_any_bytes_are_text_or_refused(data: bytes, stated: str | None) -> None:
    with reading(stated), contextlib.suppress(ParseError):
        assert isinstance(decode(data), str)
