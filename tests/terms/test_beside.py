"""Terms that a process beside prepares are those that this one would, and without it nothing is missing."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from rag_assets.terms import TermsVersion, prepare
from rag_assets.terms import beside as module
from rag_assets.terms.beside import TermsBeside, terms_beside

TEXTS = ["The pump: C++ at -40 °C, R&D.", "", "환불 정책", "São Paulo", "a lone \ud800 half", "\0 NUL", "日本語の本"]


def process_of(terms: TermsBeside) -> psutil.Process:
    assert terms._process is not None
    return psutil.Process(terms._process.pid)


@pytest.mark.parametrize("version", [1, 2])
def test_its_terms_are_ours(version: int) -> None:
    with terms_beside(version) as terms:  # type: ignore[arg-type]
        assert terms is not None
        asked = [terms.ask(TEXTS), terms.ask([]), terms.ask(TEXTS * 3000)]
        wanted = [prepare(text, version) for text in TEXTS]  # type: ignore[arg-type]
        assert [one() for one in asked] == [wanted, [], wanted * 3000]


def test_whoever_waits_prepares_what_the_process_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[str] = []

    def counted(text: str, version: TermsVersion) -> str:
        here.append(text)
        return prepare(text, version)

    monkeypatch.setattr(module, "prepare", counted)
    texts = [f"pump {number} " * 200 for number in range(5000)]
    with terms_beside(2) as terms:
        assert terms is not None
        assert terms.ask(["pump"])() == ["pump"]  # it has started
        here.clear()
        assert terms.ask(texts)() == [prepare(text, 2) for text in texts]
    assert 0 < len(here) < len(texts), "both had a part in it"
    assert texts[-1] in here


def test_it_is_gone_when_the_block_ends_whatever_it_was_at() -> None:
    with terms_beside(2) as terms:
        assert terms is not None
        process = process_of(terms)
        for _ in range(4):
            terms.ask(TEXTS * 20_000)
    assert not process.is_running()


def test_of_one_that_was_killed_nothing_is_missing() -> None:
    with terms_beside(2) as terms:
        assert terms is not None
        assert terms.ask(["pump"])() == ["pump"]
        asked = terms.ask(TEXTS * 1000)
        os.kill(process_of(terms).pid, signal.SIGKILL)
        wanted = [prepare(text, 2) for text in TEXTS]
        assert asked() == wanted * 1000
        assert terms.ask(TEXTS)() == wanted


def test_where_none_can_be_started_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(module, "start_python", refuse)
    with terms_beside(2) as terms:
        assert terms is None


def test_it_sees_no_secret_and_ends_with_whoever_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_DATABASE_URL", "postgresql://owner:hunter2@db/rag")
    with terms_beside(2) as terms:
        assert terms is not None
        assert terms.ask(["pump"])() == ["pump"]
        assert not any(name.startswith("RAG_") for name in process_of(terms).environ())
        assert terms._process is not None
        assert terms._process.stdin is not None
        terms._process.stdin.close()  # as the end of this process would
        assert terms._process.wait(60) == 0
