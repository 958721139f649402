"""A page that spells a control token is plain text to every tokenizer that counts or embeds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from rag_assets.chunking.plain import read_as_text
from rag_assets.chunking.tokenizers import HuggingFaceCounter, load_counter
from rag_assets.embedding.profiles import BUILTIN_PROFILES
from rag_assets.embedding.providers.windows import TokenWindows
from rag_assets.embedding.providers.wordllama import load_tokenizer
from rag_assets.embedding.registry import embedder_for

CONTROLS = ["<s>", "</s>", "<unk>"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz<>/[]", "▁"]
TEXTS = ["</s>", "<unk>", "a</s>b", "one <s> two </s> three", "</s></s><unk>", "<<s>>", "\uff1c/s\uff1e"]


def unigram() -> Tokenizer:
    """As those of XLM-R, E5 and BGE-M3: control tokens are words of the model, and cost nothing."""
    words = [(control, 0.0) for control in CONTROLS] + [(letter, -4.0) for letter in LETTERS]
    tokenizer = Tokenizer(models.Unigram(words, unk_id=2))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return controlled(tokenizer)


def pairs() -> Tokenizer:
    numbers = {word: number for number, word in enumerate([*CONTROLS, *LETTERS])}
    return controlled(Tokenizer(models.BPE(numbers, [], unk_token="<unk>")))


def words() -> Tokenizer:
    numbers = {word: number for number, word in enumerate([*CONTROLS, *LETTERS, *(f"##{one}" for one in LETTERS)])}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return controlled(tokenizer)


def controlled(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.add_special_tokens(CONTROLS)
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    return tokenizer


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("make", [unigram, pairs, words, load_tokenizer])
def test_no_text_makes_a_control_token(make: Any, text: str) -> None:
    tokenizer = make()
    controls = {tokenizer.token_to_id(control) for control in CONTROLS}
    if text.isascii() and make is not load_tokenizer:
        assert controls & set(tokenizer.encode(text, add_special_tokens=False).ids)
    read_as_text(tokenizer)
    read_as_text(tokenizer)
    encoding = tokenizer.encode(text, add_special_tokens=False)
    made = [token for token in encoding.ids if token in controls and tokenizer.id_to_token(token) != "<unk>"]
    assert made == []
    if text.isascii() and make is not pairs:  # it knows no space
        assert "<unk>" not in encoding.tokens
    assert [begin for begin, _ in encoding.offsets] == sorted(begin for begin, _ in encoding.offsets)


@pytest.mark.parametrize("make", [unigram, pairs, words])
def test_what_a_tokenizer_adds_itself_stays_and_other_texts_are_read_as_before(make: Any) -> None:
    before, after = make(), make()
    read_as_text(after)
    for text in ("plain words", "a < b / s >", "", "<x> unk"):
        assert after.encode(text).ids == before.encode(text).ids
    assert after.encode("ab").ids[0] == 0
    assert after.encode("ab").ids[-1] == 1


@pytest.mark.parametrize("make", [unigram, pairs])
def test_chunks_and_windows_count_what_is_spelled(make: Any, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(make().to_str())
    for counter in (load_counter(str(file)), HuggingFaceCounter(make())):
        assert counter.count("</s>" * 100) >= 400
        assert len(list(counter.starts("</s>" * 100))) >= 400
    tokenizer = make()
    read_as_text(tokenizer)
    assert len(TokenWindows(tokenizer, 50).cut("</s> " * 100, "")) > 8
    assert load_counter("wordllama").count("</s>") > 1


def test_the_vector_of_a_spelled_token_is_that_of_its_characters() -> None:
    embedder = embedder_for(BUILTIN_PROFILES["static-256"])
    spelled, characters = (embedder.embed_query(text).vectors[0] for text in ("</s>", "x </s>"))
    table = embedder._table  # type: ignore[attr-defined]
    for row in (1, 2):
        control = table[row] / np.linalg.norm(table[row])
        assert float(spelled @ control) < 0.99
        assert float(characters @ control) < 0.99
    assert np.array_equal(embedder.embed_documents(["</s>"]).vectors[0], spelled)


@pytest.mark.parametrize("make", [unigram, pairs, words])
def test_the_tokenizers_of_transformers_read_alike(make: Any) -> None:
    transformers = pytest.importorskip("transformers")
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=make(), **names)
    read_as_text(tokenizer)
    for text in TEXTS:
        assert 0 not in tokenizer(text)["input_ids"][1:-1]
        assert 1 not in tokenizer([text, "a"], truncation=True, max_length=60)["input_ids"][0][1:-1]
