from __future__ import annotations

import pytest

from rag_assets.embedding.profiles import make_profile
from rag_assets.embedding.providers.families import Prefixes, family_prefixes, prefixes_of

E5 = Prefixes("query: ", "passage: ")


@pytest.mark.parametrize(
    "model",
    [
        "intfloat/e5-base-v2",
        "intfloat/multilingual-e5-small",
        "multilingual-e5-small-q4",
        "/models/e5-large",
        "C:\\models\\e5_small",
        "/root/.cache/hub/models--intfloat--e5-base-v2/snapshots/" + "0a" * 20,
    ],
)
def test_an_e5_model_is_known_by_every_name_it_goes_by(model: str) -> None:
    assert family_prefixes(model) == E5


@pytest.mark.parametrize(
    "model",
    [
        "all-MiniLM-L6-v2",
        "thenlper/gte-large",
        "BAAI/bge-m3",
        "bge-m3:latest",
        "text-embedding-3-small",
        "e50-labs/x",
        "prime5",
    ],
)
def test_a_model_trained_without_prefixes_gets_none(model: str) -> None:
    assert family_prefixes(model) == Prefixes()


@pytest.mark.parametrize(
    ("model", "query", "document"),
    [
        ("intfloat/multilingual-e5-large-instruct", "Instruct: ", ""),
        ("intfloat/e5-mistral-7b-instruct", "Instruct: ", ""),
        ("Alibaba-NLP/gte-Qwen2-7B-instruct", "Instruct: ", ""),
        ("Qwen/Qwen3-Embedding-0.6B", "Instruct: ", ""),
        ("qwen3-embedding:0.6b", "Instruct: ", ""),
        ("BAAI/bge-base-en-v1.5", "Represent this sentence", ""),
        ("BAAI/bge-large-zh-v1.5", "为这个句子", ""),
        ("mxbai-embed-large:latest", "Represent this sentence", ""),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("nomic-embed-text", "search_query: ", "search_document: "),
        ("Snowflake/snowflake-arctic-embed-m", "Represent this sentence", ""),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("google/embeddinggemma-300m", "task: search result | query: ", "title: none | text: "),
    ],
)
def test_each_family_gets_what_its_card_asks_for(model: str, query: str, document: str) -> None:
    prefixes = family_prefixes(model)
    assert prefixes.query.startswith(query)
    assert prefixes.document == document


def test_the_profile_comes_before_the_model_and_the_model_before_its_family_for_each_role_alone() -> None:
    fields = {"name": "p", "provider": "openai-compatible", "model": "e5-base-v2", "dimensions": 768}
    bare = make_profile(**fields)
    assert prefixes_of(bare) == E5
    assert prefixes_of(bare, Prefixes(document="own: ")) == Prefixes("query: ", "own: ")
    told = make_profile(**fields, task_instruction={"query": ""})
    assert prefixes_of(told, Prefixes(query="own: ")) == Prefixes("", "passage: ")
