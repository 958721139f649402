from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.embedding.models import estimated_tokens
from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
from rag_assets.embedding.protocol import OpenGate
from rag_assets.embedding.providers.requests import (
    FOR_QUERIES,
    RetryPolicy,
    Secret,
    Transient,
    api_key,
    call_with_retries,
    find_key,
    json_bytes,
    key_names,
    plan_batches,
    seconds_of,
    status_failure,
    within,
)
from rag_assets.errors import CostCeilingReached, ProviderRefused, ProviderUnavailable, TextRefused

WHAT = "google/gemini-embedding-2"


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 10), st.integers(1, 100))
def test_batches_cover_every_position_once_and_keep_both_limits(sizes: list[int], items: int, size: int) -> None:
    batches = plan_batches(sizes, items, size)
    assert [position for batch in batches for position in batch] == list(range(len(sizes)))
    for batch in batches:
        assert len(batch) <= items
        assert len(batch) == 1 or sum(sizes[position] for position in batch) <= size


def test_no_batch_could_have_taken_the_first_item_of_the_next() -> None:
    assert plan_batches([40, 40, 40, 90, 5, 8], 3, 100) == [range(2), range(2, 3), range(3, 5), range(5, 6)]


def test_the_size_of_a_text_is_that_of_its_escaped_json() -> None:
    assert [json_bytes(text) for text in ("a", '"', "é", "🙂")] == [3, 4, 8, 14]


def test_tokens_are_estimated_from_bytes_and_never_zero() -> None:
    assert [estimated_tokens(text) for text in ("a", "abcd", "abcde", "日本")] == [1, 1, 2, 2]


class Gate(OpenGate):
    """Notes what it is asked, and can refuse."""

    def __init__(self, refuse_from: int = 100) -> None:
        self.asked: list[tuple[int, int]] = []
        self.pauses: list[float] = []
        self.refuse_from = refuse_from

    def acquire(self, items: int, tokens: int) -> None:
        if len(self.asked) >= self.refuse_from:
            raise CostCeilingReached("no more")
        self.asked.append((items, tokens))

    def throttled(self, seconds: float) -> None:
        self.pauses.append(seconds)


class Call:
    """One call whose attempts end as told, and what it did in between."""

    def __init__(self, *outcomes: Exception | str) -> None:
        self.outcomes: Iterator[Exception | str] = iter(outcomes)
        self.allowed: list[float] = []
        self.slept: list[float] = []

    def run(self, gate: Gate | None = None, policy: RetryPolicy | None = None) -> str:
        return call_with_retries(
            self._send,
            what="acme/model-1",
            gate=gate or Gate(),
            items=3,
            tokens=12,
            policy=policy or RetryPolicy(),
            sleep=self.slept.append,
        )

    def _send(self, seconds: float) -> str:
        self.allowed.append(seconds)
        outcome = next(self.outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def test_a_failure_that_passes_is_repeated_after_pauses_that_grow() -> None:
    call = Call(Transient("HTTP 503"), Transient("HTTP 503"), Transient("HTTP 503"), "vectors")
    assert call.run() == "vectors"
    assert [base <= pause <= base + 1 for pause, base in zip(call.slept, (1, 2, 4), strict=True)] == [True] * 3


def test_the_pause_that_a_provider_asks_for_is_kept_and_passed_to_the_gate() -> None:
    gate, call = Gate(), Call(Transient("HTTP 429", 17.5), "vectors")
    assert call.run(gate) == "vectors"
    assert gate.pauses == [17.5]
    assert len(call.slept) == 1
    assert call.slept[0] >= 17.5


def test_the_gate_is_asked_before_every_attempt() -> None:
    gate = Gate()
    Call(Transient("HTTP 500"), Transient("HTTP 500"), "vectors").run(gate)
    assert gate.asked == [(3, 12)] * 3


def test_a_gate_that_closes_between_two_attempts_ends_the_call_with_its_own_error() -> None:
    call = Call(Transient("HTTP 500"), "vectors")
    with pytest.raises(CostCeilingReached):
        call.run(Gate(refuse_from=1))
    assert len(call.allowed) == 1


def test_giving_up_says_who_failed_how_often_why_and_what_to_do() -> None:
    call = Call(*[Transient("HTTP 503 (UNAVAILABLE)")] * 9)
    with pytest.raises(ProviderUnavailable) as caught:
        call.run(policy=RetryPolicy(attempts=3))
    assert str(caught.value) == (
        "acme/model-1 gave no answer in 3 tries: HTTP 503 (UNAVAILABLE); "
        "what was embedded so far is kept, so run it again later"
    )
    assert len(call.allowed) == 3


def test_a_pause_beyond_the_deadline_is_not_slept_through() -> None:
    gate, call = Gate(), Call(Transient("HTTP 429", 3600), "vectors")
    with pytest.raises(ProviderUnavailable, match="1 try: HTTP 429, and asks for a pause of 3600 s;"):
        call.run(gate, RetryPolicy(deadline_seconds=600))
    assert call.slept == []
    assert gate.pauses == [3600], "the other workers have to be told all the same"


@pytest.mark.parametrize("error", [TextRefused("no"), ProviderRefused("no"), ProviderUnavailable("tomorrow")])
def test_an_error_that_lasts_is_not_repeated(error: Exception) -> None:
    call = Call(error, "vectors")
    with pytest.raises(type(error)) as caught:
        call.run()
    assert caught.value is error
    assert len(call.allowed) == 1


def test_a_query_is_tried_twice_and_within_its_deadline() -> None:
    call = Call(*[Transient("HTTP 503")] * 9)
    with pytest.raises(ProviderUnavailable, match="2 tries"):
        call.run(policy=FOR_QUERIES)
    assert all(seconds <= 3 for seconds in call.allowed)
    assert FOR_QUERIES.deadline_seconds <= 5


def test_no_attempt_may_take_longer_than_what_is_left_of_the_deadline() -> None:
    call = Call("vectors")
    call.run(policy=RetryPolicy(deadline_seconds=2, attempt_seconds=60))
    assert 0 < call.allowed[0] <= 2


def test_time_at_the_gate_does_not_count_as_the_providers() -> None:
    class SlowGate(Gate):
        def acquire(self, items: int, tokens: int) -> None:
            super().acquire(items, tokens)
            threading.Event().wait(0.2)

    call = Call(Transient("HTTP 503"), "vectors")
    assert call.run(SlowGate(), RetryPolicy(deadline_seconds=0.1, first_wait=0.001)) == "vectors"


def test_a_call_that_never_ends_is_left_behind_when_its_time_is_up() -> None:
    forever = threading.Event()
    with pytest.raises(Transient, match=r"within 0\.02 s"):
        within(0.02, forever.wait)
    forever.set()


def test_a_call_in_time_gives_its_answer_or_its_own_error() -> None:
    def fail() -> str:
        raise ProviderRefused("wrong key")

    assert within(5, lambda: "vectors") == "vectors"
    with pytest.raises(ProviderRefused, match="wrong key"):
        within(5, fail)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("2.5s", 2.5), ("0.04s", 0.04), ("30", 30), (" 7 ", 7), ("0s", 0), (None, None), ("", None), ("soon", None),
     ("-3s", None), ("inf", None), ("nan", None), ("1e9", None), ("2.5m", None), ("٣", None)],
)  # fmt: skip
def test_a_pause_is_read_as_seconds_or_not_at_all(value: str | None, seconds: float | None) -> None:
    assert seconds_of(value) == seconds


def test_a_pause_may_be_a_date_and_one_in_the_past_is_over() -> None:
    now = datetime.now(UTC)
    later = seconds_of(format_datetime(now + timedelta(minutes=10), usegmt=True))
    assert later is not None
    assert 500 < later <= 600
    assert seconds_of(format_datetime(now - timedelta(minutes=10), usegmt=True)) == 0


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, TextRefused), (413, TextRefused), (422, TextRefused), (401, ProviderRefused), (403, ProviderRefused),
     (404, ProviderRefused), (307, ProviderRefused), (405, ProviderRefused), (408, Transient), (425, Transient),
     (429, Transient), (500, Transient), (503, Transient), (201, Transient), (204, Transient)],
)  # fmt: skip
def test_every_status_but_200_has_one_meaning(status: int, kind: type[Exception]) -> None:
    failure = status_failure("acme/model-1", status, 4.0, "NAME")
    assert type(failure) is kind
    assert f"HTTP {status} (NAME)" in str(failure)
    assert getattr(failure, "retry_after", 4.0) == 4.0


def profile(key_env: str | None = None) -> EmbeddingProfile:
    options = {"key_env": key_env} if key_env else {}
    return make_profile(name="p", provider="google", model="gemini-embedding-2", dimensions=768, options=options)


@pytest.mark.parametrize("blank", ["", "   ", "\n"])
def test_a_blank_key_counts_as_missing(blank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRST_KEY", blank)
    monkeypatch.delenv("SECOND_KEY", raising=False)
    assert find_key(WHAT, ["FIRST_KEY", "SECOND_KEY"]) is None
    with pytest.raises(ProviderRefused, match="google/gemini-embedding-2 needs a key: set FIRST_KEY or SECOND_KEY"):
        api_key(WHAT, ["FIRST_KEY", "SECOND_KEY"])


def test_the_first_name_that_is_set_wins_and_is_stripped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRST_KEY", " ")
    monkeypatch.setenv("SECOND_KEY", " abc\n")
    assert api_key(WHAT, ["FIRST_KEY", "SECOND_KEY"]).reveal() == "abc"


def test_a_profile_that_names_its_own_variable_never_takes_the_key_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRST_KEY", "somebody-else")
    monkeypatch.delenv("TENANT_A_KEY", raising=False)
    with pytest.raises(ProviderRefused, match="set TENANT_A_KEY in"):
        api_key(WHAT, key_names(profile("TENANT_A_KEY"), ["FIRST_KEY"]))


@pytest.mark.parametrize("value", ["two words", "line\nend", "schlüssel"])
def test_a_value_that_no_header_can_carry_is_refused_without_repeating_it(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRST_KEY", value)
    with pytest.raises(ProviderRefused, match="the value of FIRST_KEY is no key") as caught:
        api_key(WHAT, ["FIRST_KEY"])
    assert value not in str(caught.value)


@pytest.mark.parametrize("copying", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_secret_shows_itself_in_no_text_and_no_copy(copying: Callable[[object], object]) -> None:
    secret = Secret("abc-123")
    assert "abc-123" not in f"{secret} {secret!r} {[secret]}"
    with pytest.raises(TypeError, match="not pickled"):
        copying(secret)
