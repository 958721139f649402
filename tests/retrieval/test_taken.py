"""What several searches took is told by one rule, whichever retriever asked them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag_assets.embedding.protocol import Usage
from rag_assets.retrieval.results import Retrieval
from rag_assets.retrieval.spaces import merged
from rag_assets.retrieval.steps import Outcome
from rag_assets.retrieval.taken import Taken, beside, in_turn
from tests.support.passages import SCOPE

_SECONDS = st.floats(0, 100)


@st.composite
def searches(draw: st.DrawFn) -> Retrieval:
    stages = draw(st.dictionaries(st.sampled_from(["rerank", "graph"]), _SECONDS))
    timings = {"embed": draw(_SECONDS), "search": draw(_SECONDS), **stages, "total": draw(_SECONDS)}
    usage = draw(st.none() | st.builds(Usage, st.just("acme"), st.just("support"), st.integers(0, 9), st.integers(0, 9),
                                       _SECONDS, _SECONDS))  # fmt: skip
    return Retrieval((), timings, usage=usage)


@given(st.lists(searches(), min_size=1, max_size=4))
def test_side_by_side_the_longest_counts_and_one_after_another_adds(found: list[Retrieval]) -> None:
    together, after = beside(found), in_turn(beside([one]) for one in found)
    for stage in {"embed", "search"}.union(*(one.timings_ms for one in found)):
        times = [one.timings_ms.get(stage, 0.0) for one in found]
        assert together.timings_ms[stage] == max(times)
        assert after.timings_ms[stage] == sum(times)
    usages = [one.usage for one in found if one.usage]
    for took, seconds in ((together, max), (after, sum)):
        assert (took.usage is None) == (not usages)
        if took.usage is not None:
            assert took.usage.items == sum(one.items for one in usages)
            assert took.usage.tokens == sum(one.tokens for one in usages)
            assert took.usage.seconds == seconds([one.seconds for one in usages])  # type: ignore[operator]


@given(searches(), searches())
def test_two_spaces_follow_the_same_rule(own: Retrieval, shared: Retrieval) -> None:
    found = merged(Outcome(own), Outcome(shared), SCOPE, 8, by_score=True, copies=False)
    assert Taken(found.timings_ms, found.usage) == beside([own, shared])


def test_what_gave_no_answer_took_nothing() -> None:
    assert beside([None, None]) == Taken({"embed": 0.0, "search": 0.0})
