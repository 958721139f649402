"""Find the best score below which nothing that is found is an answer, on one half of the questions, and prove it on the
other."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

from evals.asking import target_of
from evals.datasets import EvalSet
from evals.tables import read_json_lines, read_lines
from evals.tuning import ALPHA, halves
from rag_assets.errors import UsageError
from rag_assets.printing import counted
from rag_assets.progress import stage
from rag_assets.store.database import Database
from rag_assets.store.search import Mode

UNANSWERABLE = "unanswerable"  # the kind of labelled queries that nobody can answer
KEEP = 0.95
_NOTHING = -1.0  # the score where nothing is found


@dataclass(frozen=True)
class Shares:
    """What a floor does: how many of all labelled queries it lets through, and how many of the questions that nobody
    can answer it refuses."""

    kept: int
    answerable: int
    refused: int
    unanswerable: int

    @property
    def p_value(self) -> float:
        """How likely it is that a floor that cannot tell them apart refuses as many of the unanswerable (Fisher's exact
        test, one-sided)."""
        all_refused = self.refused + self.answerable - self.kept
        every = math.comb(self.answerable + self.unanswerable, all_refused)
        as_many = range(self.refused, min(self.unanswerable, all_refused) + 1)
        ways = (math.comb(self.unanswerable, n) * math.comb(self.answerable, all_refused - n) for n in as_many)
        return sum(ways) / every

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, with shares."""
        return {
            "answerable": self.answerable,
            "kept": self.kept / self.answerable,
            "unanswerable": self.unanswerable,
            "refused": self.refused / self.unanswerable,
        }


@dataclass(frozen=True)
class FoundFloor:
    """A floor for one mode's best scores, with what it does on the half that chose it and on the other one."""

    mode: Mode
    floor: float
    dense_weight: float | None
    tuning: Shares
    held_out: Shares

    @property
    def is_proven(self) -> bool:
        """Whether it refuses what nobody can answer more often than what was labelled, on the other half."""
        return self.held_out.p_value <= ALPHA

    @property
    def conclusion(self) -> str:
        """What follows, in a sentence."""
        one = self.held_out
        found = (
            f"on the other half it refuses {one.refused} of {counted(one.unanswerable, 'question')} that nobody can "
            f"answer, and lets {one.kept} of {counted(one.answerable, 'labelled query')} through, p = {one.p_value:.3f}"
        )
        return f"{self.mode}: {self.floor:.3f}{'' if self.is_proven else ' is not proven'}; {found}"

    def evidence(self, evalset: EvalSet) -> dict[str, Any]:
        """What the floor rests on, to be stored with it."""
        return {
            "labelled_set": evalset.content_hash,
            **self.held_out.as_dict(),
            "p_value": self.held_out.p_value,
            "is_proven": self.is_proven,
        }


def read_questions(path: Path) -> list[str]:
    """The questions of a file: one a line, or in JSON lines their `text` or `query`.

    Raises:
        DatasetError: the file cannot be read, or a line is no JSON.
    """
    if path.suffix == ".jsonl":
        texts = [str(row.get("text") or row.get("query") or "") for _, row in read_json_lines(path)]
    else:
        texts = [text for _, text in read_lines(path)]
    return list(dict.fromkeys(text.strip() for text in texts if text.strip()))


def unanswerable_of(evalset: EvalSet) -> list[str]:
    """The labelled set's own questions that nobody can answer."""
    return [query.text for query in evalset.queries if query.kind == UNANSWERABLE]


def find_floors(
    database: Database,
    tenant: str,
    bot: str,
    profile: str,
    evalset: EvalSet,
    questions: Sequence[str],
    keep: float = KEEP,
) -> list[FoundFloor]:
    """A floor for the best score of each mode: of those that let at least the share `keep` of one half of the labelled
    queries through, the one that tells them best from the questions that nobody can answer.

    Raises:
        UsageError: one of the halves has no query or no question.
        ProfileNotReady: the profile is not completely built.
    """
    known = [[query.text for query in half.queries] for half in halves(evalset)]
    unknown = [[text for text in questions if _is_for_tuning(text) is tuning] for tuning in (True, False)]
    if not all([*known, *unknown]):
        raise UsageError(
            f"{counted(len(evalset.judged), 'judged query')} and {counted(len(questions), 'question')} that nobody can "
            "answer cannot be split into halves; give more of them"
        )
    modes: tuple[Mode, ...] = get_args(Mode)
    total = len(modes) * sum(map(len, [*known, *unknown]))
    found = []
    with stage("look for floors", total) as bar:
        for mode in modes:
            target = target_of(database, tenant, bot, profile, mode)

            def best(text: str) -> float:
                bar.advance(1)
                return max((one.score for one in target.retriever.search(text, target.scope, 1)), default=_NOTHING)  # noqa: B023

            answered, refused = ([sorted(map(best, half)) for half in halves_of] for halves_of in (known, unknown))
            floor = chosen(answered[0], refused[0], keep)
            weight = target.scope.dense_weight if mode == "hybrid" else None
            shares = [shares_of(floor, answered[half], refused[half]) for half in (0, 1)]
            found.append(FoundFloor(mode, floor, weight, *shares))
    return found


def chosen(answerable: Sequence[float], unanswerable: Sequence[float], keep: float) -> float:
    """The floor between two scores that tells the two best apart and lets the share `keep` of the answerable through.
    Both are in ascending order."""
    scores = sorted({_NOTHING, *answerable, *unanswerable})
    floors = [_NOTHING, *((low + high) / 2 for low, high in pairwise(scores))]

    def quality(floor: float) -> float:
        one = shares_of(floor, answerable, unanswerable)
        return one.kept / one.answerable + one.refused / one.unanswerable

    let_through = [
        floor for floor in floors if shares_of(floor, answerable, unanswerable).kept >= keep * len(answerable)
    ]
    return max(let_through, key=lambda floor: (round(quality(floor), 9), -floor))


def shares_of(floor: float, answerable: Sequence[float], unanswerable: Sequence[float]) -> Shares:
    """What a floor does to best scores, each in ascending order."""
    kept = len(answerable) - bisect_left(answerable, floor)
    return Shares(kept, len(answerable), bisect_left(unanswerable, floor), len(unanswerable))


def _is_for_tuning(text: str) -> bool:
    return hashlib.blake2b(text.encode()).digest()[0] % 2 == 0
