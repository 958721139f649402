from __future__ import annotations

import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import Whitespace

from rag_assets.chunking.plain import read_as_text
from rag_assets.embedding.models import WORDLLAMA_MAX_TOKENS
from rag_assets.embedding.profiles import BUILTIN_PROFILES
from rag_assets.embedding.providers import pieces as module
from rag_assets.embedding.providers import wordllama
from rag_assets.embedding.providers.pieces import Pieces, pieces_of
from rag_assets.embedding.providers.wordllama import WordLlamaEmbedder, load_pieces, load_tokenizer

SPELLED = ["<s>", "</s>", "<unk>", "<0x0A>", "<0xE2>", "\u2581", "\u2581\u2581", "  ", " \n ", "\r\n", "\u00a0", "\x7f"]
WORDS = [
    "don't",
    "Straße",
    "naïve",
    "e-mail",
    "https://a.example/b?c=1",
    "日本語",
    "한국어",
    "привет",
    "🙂",
    "الل",
    "x" * 50,
]
texts = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
    st.lists(st.sampled_from([*SPELLED, *WORDS, " ", "\n", "\t", "1", ",", "(", "a", "É"]), min_size=1).map("".join),
    st.text(st.sampled_from("abcdefghijklmnopqrstuvwxyzABC .,'-\u2581\n\té—"), min_size=1),
)


def of_wordllama() -> Pieces:
    pieces = load_pieces()
    assert pieces is not None
    return pieces


def whole(batch: list[str]) -> list[list[int]]:
    return [one.ids for one in load_tokenizer().encode_batch_fast(batch, add_special_tokens=False)]


def in_pieces(pieces: Pieces, batch: list[str]) -> list[list[int]]:
    return [one.tolist() for one in pieces.ids(batch)]


@settings(deadline=None, max_examples=300)
@given(st.lists(texts, min_size=1, max_size=5))
@example([" ", "\u2581", "  a  b ", "\n", "a\nb", "a \n", "<s> </s>", "a\u2581b", "\u2581 a"])
def test_texts_in_pieces_have_the_ids_that_they_have_as_a_whole(batch: list[str]) -> None:
    assert in_pieces(of_wordllama(), batch) == whole(batch)


def test_each_token_of_the_vocabulary_has_the_same_ids_in_pieces_alone_and_between_others() -> None:
    vocabulary = [token for token in load_tokenizer().get_vocab() if "\0" not in token]
    mixed = random.Random(1)
    batch = vocabulary + ["".join(mixed.choices(vocabulary, k=40)) for _ in range(2000)]
    assert in_pieces(of_wordllama(), batch) == whole(batch)


def test_pieces_that_are_forgotten_are_made_anew_while_other_threads_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 2000)
    pieces = described()
    assert pieces is not None
    mixed = random.Random(2)
    words = [f"{mixed.choice('abcdef')}{mixed.choice('ghijkl')}{mixed.choice('mnopqr')}" for _ in range(200)]
    batches = [[" ".join(mixed.choices(words, k=10)) for _ in range(5)] for _ in range(200)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda batch: in_pieces(pieces, batch), batches))
    assert found == [whole(batch) for batch in batches]
    assert pieces._bytes <= 2000


def described(change: Callable[[dict[str, Any]], object] = lambda it: None) -> Pieces | None:
    description = json.loads(wordllama._tokenizer_file().read_bytes())
    change(description)
    tokenizer = Tokenizer.from_str(json.dumps(description))
    read_as_text(tokenizer)
    return pieces_of(tokenizer, description)


def joined_with(left: str, right: str) -> Callable[[dict[str, Any]], object]:
    def change(description: dict[str, Any]) -> None:
        model = description["model"]
        for token in (left, right, left + right):
            model["vocab"].setdefault(token, len(model["vocab"]))
        model["merges"].append(f"{left} {right}")

    return change


@pytest.mark.parametrize(
    "change",
    [
        joined_with("o", "\u2581"),
        joined_with("a", "\n"),
        joined_with("<0xE2>", "<0x80>"),
        lambda it: it["model"].update(ignore_merges=True),
        lambda it: it["model"].update(byte_fallback=False),
        lambda it: it["model"].update(dropout=0.5),
        lambda it: it["model"].update(merges=[]),
        lambda it: it["added_tokens"].append(
            {**it["added_tokens"][0], "id": 32000, "content": "a b", "special": False}
        ),
        lambda it: it["normalizer"]["normalizers"].append({"type": "Lowercase"}),
    ],
)
def test_a_tokenizer_that_may_join_what_is_between_pieces_has_none(change: Callable[[dict[str, Any]], object]) -> None:
    assert described(change) is None


def test_a_file_that_says_less_proves_nothing() -> None:
    assert pieces_of(load_tokenizer(), {}) is None
    assert pieces_of(load_tokenizer(), {"model": {"vocab": {}, "merges": []}}) is None


def test_a_tokenizer_that_cuts_texts_itself_has_no_pieces() -> None:
    description = json.loads(wordllama._tokenizer_file().read_bytes())
    tokenizer = Tokenizer.from_str(json.dumps(description))
    assert pieces_of(tokenizer, description) is None  # it sees `<s>` in a text
    read_as_text(tokenizer)
    assert pieces_of(tokenizer, description) is not None
    tokenizer.pre_tokenizer = Whitespace()
    assert pieces_of(tokenizer, description) is None


def test_a_merge_that_is_new_joins_what_was_apart() -> None:
    pieces = described(joined_with("日", "本"))
    assert pieces is not None
    assert in_pieces(pieces, ["日本語"])[0] != whole(["日本語"])[0]
    assert len(in_pieces(pieces, ["日本"])[0]) == 2  # the mark, and both as one


@pytest.mark.parametrize("spelled", ["dog ", "日本", "x", "a  b\n"])
def test_vectors_and_counts_are_to_the_bit_those_of_whole_texts(spelled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = [spelled * 100_000, *[f"{spelled}{number} <s> e-mail" for number in range(20)]]
    monkeypatch.setattr(wordllama, "_FEW_CHARACTERS", 0)
    monkeypatch.setattr(Pieces, "pay", lambda *_: True)
    embedder = WordLlamaEmbedder(BUILTIN_PROFILES["static-64"])
    in_pieces = embedder.embed_documents(batch)
    monkeypatch.setattr(wordllama, "load_pieces", lambda: None)
    as_a_whole = embedder.embed_documents(batch)
    assert np.array_equal(in_pieces.vectors, as_a_whole.vectors)
    assert in_pieces.usage == as_a_whole.usage
    assert in_pieces.usage.tokens > WORDLLAMA_MAX_TOKENS


@pytest.mark.parametrize(
    ("text", "pay"),
    [
        ("A pump is shut before anybody opens it.", True),
        ("Насос закрывают, прежде чем кто-либо его откроет.", True),
        ("def shut(self, pump):\n    return self.pumps[pump]", True),
        ("日本語の検索テスト", False),
        ("한국어 검색 테스트", False),
        ("المضخة مغلقة قبل أن يفتحها أحد", False),
        ("3.14 2.71 1.41", False),
    ],
)
def test_pieces_pay_where_the_tokenizer_joins_characters(text: str, pay: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_wordllama().pay([text]) is of_wordllama().pay([text] * 300) is pay
    monkeypatch.setattr(wordllama, "_FEW_CHARACTERS", 0)
    monkeypatch.setattr(Pieces, "ids", lambda *_: pytest.fail("in pieces"))
    with nullcontext() if not pay else pytest.raises(pytest.fail.Exception):
        WordLlamaEmbedder(BUILTIN_PROFILES["static-64"]).embed_documents([text])
