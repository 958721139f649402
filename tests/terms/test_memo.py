"""Words that come again are made once while they are in use, and no more are kept than is said."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from rag_assets.terms.memo import Memo


@given(st.lists(st.text(alphabet="abcde", max_size=3)), st.integers(2, 20))
def test_it_answers_as_what_it_remembers(words: list[str], size: int) -> None:
    memo = Memo(str.upper, size)
    assert [memo[word] for word in words] == [word.upper() for word in words]
    assert len(memo) + len(memo._before) <= size


def test_words_in_use_are_made_once_however_many_others_come() -> None:
    made: Counter[str] = Counter()

    def make(word: str) -> str:
        made[word] += 1
        return word

    memo = Memo(make, 100)
    for number in range(1000):
        for word in ("the", "of", str(number)):
            assert memo[word] == word
    assert made["the"] == made["of"] == 1
    assert memo["999"] == "999"
    assert made["999"] == 1
    assert memo["1"] == "1"
    assert made["1"] == 2


def test_threads_share_one() -> None:
    memo = Memo(str.upper, 50)
    words = [f"w{number % 80}" for number in range(20_000)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: [memo[word] for word in words], range(4)))
    assert answers == [[word.upper() for word in words]] * 4
    assert len(memo) + len(memo._before) <= 50 + 4
