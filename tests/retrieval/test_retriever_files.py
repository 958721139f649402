"""A file makes a retriever, and one that is wrong says where and what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assets.errors import EmbeddingError, UsageError
from rag_assets.retrieval import HybridRetriever
from rag_assets.retrieval.files import load_retriever
from rag_assets.store.database import Database


@pytest.fixture
def database() -> Iterator[Database]:
    database = Database("postgresql://nobody@localhost:1/none")  # nothing is asked while a retriever is made
    yield database
    database.close()


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "retriever.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_makes_the_retriever_that_it_describes(database: Database, tmp_path: Path) -> None:
    made = load_retriever(database, written(tmp_path, 'kind = "hybrid"\ndense_weight = 0.3\ncandidates = 20\n'))
    assert isinstance(made, HybridRetriever)
    assert made.database is database


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind = ", "is no TOML"),
        ("dense_weight = 0.5", "says which kind it is"),
        ('kind = "hybird"', "no kind 'hybird', did you mean 'hybrid'?"),
        ("kind = 7", "no kind 7"),
        ('kind = "hybrid"\ndense_wieght = 0.5', "no setting 'dense_wieght', did you mean 'dense_weight'?"),
        ('kind = "hybrid"\ndatabase = "x"', "no setting 'database'"),
        ('kind = "hybrid"\ndense_weight = 1.5', "dense_weight must be a number between 0 and 1, got 1.5"),
        ('kind = "hybrid"\n[fusion]\nkind = "no"', "retriever.toml, fusion: there is no kind 'no'"),
        ('knd = "hybrid"', "says which kind it is, did you mean kind for 'knd'? One of agentic,"),
        ('kind = "bi_encoder"\nprofile = "static-64"', "'bi_encoder' is no retriever, but a part of one"),
        (
            'kind = "graph"\nretriever = "hybrid"',
            "retriever: this is 'hybrid', and has to be a retriever: a table [retriever]",
        ),
        ('kind = "graph"\n[retriever]\nknd = "hybrid"', "retriever: this is a table without a kind, and has to be a"),
        (
            'kind = "graph"\n[[retriever]]\nkind = "hybrid"',
            "retriever: this is a list of tables, and has to be a retriever",
        ),
        (
            'kind = "reranked"\n[retriever]\nkind = "bi_encoder"\nprofile = "static-64"\n[reranker]\nkind = "hybrid"',
            "retriever: this is the kind 'bi_encoder', and has to be a retriever",
        ),
        (
            'kind = "reranked"\n[retriever]\nkind = "hybrid"\n[reranker]\nkind = "openai_chat"\nmodel = "m"',
            "one of bi_encoder, chat_reranker, cross_encoder, rerank_server",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(
    database: Database, tmp_path: Path, text: str, said: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as error:
        load_retriever(database, path)
    assert str(path) in str(error.value)
    assert said in str(error.value)


def test_a_file_that_cannot_be_read_is_a_clear_error(database: Database, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.toml cannot be read: No such file"):
        load_retriever(database, tmp_path / "missing.toml")
    (tmp_path / "bytes.toml").write_bytes(b'kind = "\xff"')
    with pytest.raises(UsageError, match=r"bytes\.toml is no TOML"):
        load_retriever(database, tmp_path / "bytes.toml")


def test_a_part_that_cannot_run_on_this_machine_says_which_it_is(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_assets.embedding.providers.local_weights.find_spec", lambda name: None)
    text = 'kind = "reranked"\n[retriever]\nkind = "hybrid"\n[reranker]\nkind = "cross_encoder"\n'
    with pytest.raises(EmbeddingError, match=r"retriever\.toml, reranker: .*pip install sentence-transformers"):
        load_retriever(database, written(tmp_path, text))


TABLES = "\n".join(f"[{'.'.join(['retriever'] * depth)}]\nkind = 'timed'" for depth in range(1, 80))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('kind = "hybrid"\nx = ' + "[" * 5000 + "]" * 5000, "nested too deep"),
        ("kind = 'timed'\n" + TABLES, "nested more than 50"),
        ("#" * 200_000 + '\nkind = "hybrid"', "more than 100,000 bytes"),
    ],
    ids=["lists", "tables", "bytes"],
)  # fmt: skip
def test_a_file_that_is_huge_or_has_no_end_of_parts_is_refused(
    database: Database, tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(UsageError, match=f"retriever.toml.*{said}"):
        load_retriever(database, written(tmp_path, text))
