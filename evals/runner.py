"""Measure profiles on a bot's labelled queries, and judge a candidate against the one that serves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evals.asking import STAGES, Answers, RunSettings, ask_all, target_of
from evals.datasets import EvalSet, load_evalset
from evals.gate import GateInput, GatePolicy, Verdict, decide
from evals.labels import MAX_LEFT_OUT, Labels
from evals.metrics import evaluate
from evals.naming import labels_of
from evals.report import Measured
from evals.runs import RetrievalRun, RunError
from evals.stored_sets import StoredSet, latest_eval_set, save_eval_set
from rag_assets.errors import ProfileNotReady
from rag_assets.ingest.start import remember_roots
from rag_assets.printing import counted
from rag_assets.store import evals as store
from rag_assets.store.database import Connection, Database
from rag_assets.store.profiles import BuiltProfile, built_profile, built_profiles
from rag_assets.store.search import Mode
from rag_assets.store.tenants import Space, spaces_of
from rag_assets.store.weights import tuned_weight, untuned_weight

_CHANGED = "sources changed while it was measured"


@dataclass(frozen=True)
class StoredRun:
    """A measured run with its row, and the corpus that it searched."""

    id: int
    measured: Measured
    snapshot: str
    labels: Labels
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class GateOutcome:
    """A recorded verdict with the two runs that it compares, and the labels that they were measured by. Two that were
    not `asked_alike` are two ways of asking, and the verdict promotes no profile."""

    verdict: Verdict
    candidate: Measured
    baseline: Measured
    verdict_id: int
    candidate_run_id: int
    baseline_run_id: int
    evalset: EvalSet
    labels: Labels
    asked_alike: bool = True


@dataclass(frozen=True)
class _PairRun:
    """Candidate and baseline, measured side by side; `changed` where the corpus of one did meanwhile, `alike` where
    both were asked in the same way."""

    answers: list[Answers]
    measured: tuple[Measured, Measured]
    runs: tuple[int, int]
    snapshots: tuple[str, str]
    changed: bool
    alike: bool


def corpus_of(folder: Path) -> Path | None:
    """The documents that come with a labelled set: `corpus.jsonl` or the folder `sources`; None if neither is there."""
    found = (folder / name for name in ("corpus.jsonl", "sources"))
    return next((path.absolute() for path in found if path.exists()), None)


def import_set(database: Database, tenant: str, bot: str, folder: Path) -> EvalSet:
    """Register the folder's documents as a source root of the bot, and its labelled queries as the bot's own.

    The bot is created where documents come along; they are ingested by the next `rag ingest`.

    Raises:
        DatasetError: before anything is written.
        UnknownTenant, UnknownBot: there are labels only, and nobody whose documents they could name.
    """
    evalset = load_evalset(folder)
    corpus = corpus_of(folder)
    if corpus is not None:
        remember_roots(database, tenant, bot, [str(corpus)])
    with database.work(tenant) as connection:
        return save_eval_set(connection, spaces_of(connection, tenant, bot)[0], evalset).evalset


def stored_set(database: Database, tenant: str, bot: str) -> StoredSet:
    """The labelled set that the bot is measured by.

    Raises:
        UsageError: it has none.
    """
    with database.work(tenant) as connection:
        return latest_eval_set(connection, spaces_of(connection, tenant, bot)[0])


def run_queries(
    database: Database,
    tenant: str,
    bot: str,
    profile: str,
    evalset: EvalSet,
    mode: Mode = "hybrid",
    settings: RunSettings | None = None,
    labels: Labels | None = None,
) -> RetrievalRun:
    """Put all judged queries to one profile; documents by their id, latencies by stage. `labels`: those of the set, by
    default looked up.

    Raises:
        ProfileNotReady: the profile is not completely built.
        RunError: a score is not a finite number.
    """
    settings = settings or RunSettings()
    target = target_of(database, tenant, bot, profile, mode, settings)
    labels = labels or labels_of(database, tenant, bot, evalset)
    (answers,) = ask_all(evalset, [target], settings.depth, labels=labels)
    if answers.invalid_scores:
        raise RunError(f"scores that are not finite numbers: {answers.invalid_scores}; the run cannot be measured")
    return answers.run


def measure(
    database: Database,
    tenant: str,
    bot: str,
    profile: str | None = None,
    mode: Mode = "hybrid",
    settings: RunSettings | None = None,
    evalset: EvalSet | None = None,
) -> StoredRun:
    """Measure one profile (by default the active one) on the bot's labelled set, or on `evalset`, and record the run.

    Raises:
        UsageError: there are no labelled queries.
        UnknownProfile, ProfileNotReady: the profile cannot be searched.
        RunError: a score is not a finite number.
    """
    settings = settings or RunSettings()
    bench = _Bench(database, tenant, bot, evalset)
    built = bench.profile(profile) if profile else bench.active()
    name = built.profile.name
    (before,) = bench.snapshots(built)
    run = run_queries(database, tenant, bot, name, bench.evalset, mode, settings, bench.labels)
    measured = _measured(built, run, bench, settings)
    (after,) = bench.snapshots(built)
    run_id = bench.record(built, measured, mode, settings, before)
    problems = [*map(str, bench.set.evalset.problems), *bench.labels.problems()]
    changed = [_CHANGED] if before != after else []
    return StoredRun(run_id, measured, before, bench.labels, (*problems, *changed))


def judge(
    database: Database,
    tenant: str,
    bot: str,
    candidate: str,
    baseline: str | None = None,
    mode: Mode = "hybrid",
    policy: GatePolicy | None = None,
    evalset: EvalSet | None = None,
    settings: RunSettings | None = None,
    baseline_settings: RunSettings | None = None,
) -> GateOutcome:
    """Measure candidate and baseline (by default the active profile) side by side, decide, and record the verdict.

    The baseline is asked in the same way, unless `baseline_settings` say otherwise. Where candidate and baseline are
    one profile, a retriever of `settings` is what is judged, and the baseline is asked in the mode. A verdict on two
    ways of asking promotes no profile. A candidate that is not completely built is refused for what it lacks; it is
    not searched.

    Raises:
        UsageError: there are no labelled queries.
        UnknownProfile: one of the two is not built for this bot at all.
        ProfileNotReady: no profile is active, or the baseline is not completely built.
    """
    settings, policy = settings or RunSettings(), policy or GatePolicy()
    bench = _Bench(database, tenant, bot, evalset, policy.max_left_out)
    pair = (bench.profile(candidate), bench.profile(baseline) if baseline else bench.active())
    if baseline_settings is None:
        baseline_settings = replace(settings, retriever=None) if pair[0].id == pair[1].id else settings
    done = _measure_pair(bench, pair, mode, (settings, baseline_settings))
    verdict = decide(bench.gate_input(pair, done), policy)
    verdict_id = bench.record_verdict(pair, done, policy, verdict)
    return GateOutcome(verdict, *done.measured, verdict_id, *done.runs, bench.evalset, bench.labels, done.alike)


def measure_pair(
    database: Database,
    tenant: str,
    bot: str,
    candidate: str,
    baseline: str,
    mode: Mode = "hybrid",
    settings: RunSettings | None = None,
) -> tuple[Measured, Measured]:
    """Measure candidate and baseline side by side and record both runs; no verdict. Raises what `judge` raises."""
    bench = _Bench(database, tenant, bot, None)
    pair = (bench.profile(candidate), bench.profile(baseline))
    settings = settings or RunSettings()
    return _measure_pair(bench, pair, mode, (settings, settings)).measured


def _measure_pair(
    bench: _Bench, pair: tuple[BuiltProfile, BuiltProfile], mode: Mode, settings: tuple[RunSettings, RunSettings]
) -> _PairRun:
    before = bench.snapshots(*pair)
    answers = _answers_of(bench, pair, mode, settings)
    changed = bench.snapshots(*pair) != before
    candidate, baseline = (
        _measured(built, heard.run, bench, one) for built, heard, one in zip(pair, answers, settings, strict=True)
    )
    first = bench.record(pair[0], candidate, mode, settings[0], before[0])
    second = bench.record(pair[1], baseline, mode, settings[1], before[1])
    alike = settings[0] == settings[1]
    return _PairRun(answers, (candidate, baseline), (first, second), (before[0], before[1]), changed, alike)


def _measured(built: BuiltProfile, run: RetrievalRun, bench: _Bench, settings: RunSettings) -> Measured:
    retriever = settings.retriever.name if settings.retriever else None
    return Measured(built.profile.name, run, evaluate(bench.evalset, run), retriever)


def _answers_of(
    bench: _Bench, pair: Sequence[BuiltProfile], mode: Mode, settings: Sequence[RunSettings]
) -> list[Answers]:
    is_complete = pair[0].status in ("ready", "active")
    asked = list(zip(pair, settings, strict=True))[0 if is_complete else 1 :]
    targets = [
        target_of(bench.database, built.tenant, built.bot, built.profile.name, mode, one) for built, one in asked
    ]
    depth = max(one.depth for one in settings)
    answers = ask_all(bench.evalset, targets, depth, "ask candidate and baseline", bench.labels)
    return answers if is_complete else [Answers(RetrievalRun({})), *answers]


class _Bench:
    """One bot with its labelled set; every use of the database is a short transaction of its own. `evalset` is what
    counts of the set: labels that nothing could answer are left out if they are few."""

    def __init__(
        self, database: Database, tenant: str, bot: str, evalset: EvalSet | None, max_left_out: float = MAX_LEFT_OUT
    ) -> None:
        self.database, self._tenant, self._bot = database, tenant, bot
        with self._transaction() as connection:
            self._space: Space = spaces_of(connection, tenant, bot)[0]
            self._built = built_profiles(connection, tenant, bot)
            if evalset is None:
                self.set = latest_eval_set(connection, self._space)
            else:
                self.set = save_eval_set(connection, self._space, evalset, imported=False)
        self.labels = labels_of(database, tenant, bot, self.set.evalset)
        self.evalset = self.labels.counted(self.set.evalset, max_left_out)

    def _transaction(self) -> AbstractContextManager[Connection]:
        return self.database.work(self._tenant)

    def profile(self, name: str) -> BuiltProfile:
        with self._transaction() as connection:
            return built_profile(connection, self._tenant, self._bot, name)

    def active(self) -> BuiltProfile:
        for built in self._built:
            if built.id == self._space.active_profile_id:
                return built
        raise ProfileNotReady(
            f"bot {self._bot!r} of tenant {self._tenant!r} has no active profile; name the one that is meant"
        )

    def snapshots(self, *built: BuiltProfile) -> list[str]:
        with self._transaction() as connection:
            return [store.snapshot(connection, one) for one in built]

    def record(self, built: BuiltProfile, measured: Measured, mode: Mode, settings: RunSettings, snapshot: str) -> int:
        with self._transaction() as connection:
            tuned = tuned_weight(connection, built)
            served = tuned.dense_weight if tuned else untuned_weight(connection, built)
            used = served if settings.dense_weight is None else settings.dense_weight
            return store.add_run(
                connection, built, self.set.id, mode="retriever" if settings.retriever else mode,
                settings={**settings.as_dict(), "dense_weight": used}, snapshot=snapshot,
                run_hash=measured.run.run_hash, metrics=run_metrics(measured),
            )  # fmt: skip

    def record_verdict(
        self, pair: tuple[BuiltProfile, BuiltProfile], done: _PairRun, policy: GatePolicy, verdict: Verdict
    ) -> int:
        criteria = verdict.as_dict()["criteria"]
        with self._transaction() as connection:
            return store.add_verdict(
                connection, *pair, runs=done.runs, snapshots=done.snapshots, policy=asdict(policy),
                criteria=criteria, outcome=verdict.outcome, asked_alike=done.alike,
            )  # fmt: skip

    def gate_input(self, pair: tuple[BuiltProfile, BuiltProfile], done: _PairRun) -> GateInput:
        candidate, baseline = pair
        first, second = done.measured
        problems = [*map(str, self.set.evalset.problems)]
        if candidate.status not in ("ready", "active"):
            problems.append(f"profile {candidate.profile.name!r} is not complete: its status is {candidate.status!r}")
        with self._transaction() as connection:
            covered = store.coverage(connection, candidate, baseline)
            return GateInput(
                candidate=first.evaluation,
                baseline=second.evaluation,
                critical=self.set.evalset.critical,
                active_sources=covered.sources,
                missing_sources=tuple(covered.missing),
                candidate_p95_ms=first.run.percentile_ms("total", 0.95),
                baseline_p95_ms=second.run.percentile_ms("total", 0.95),
                index_recall=store.index_recall(connection, candidate),
                labels=self.labels,
                invalid_scores=sum(heard.invalid_scores for heard in done.answers),
                same_spec=done.alike and candidate.profile.spec_hash == baseline.profile.spec_hash,
                unstable=tuple(_unstable(done)),
                problems=tuple(problems),
            )


def _unstable(done: _PairRun) -> Iterator[str]:
    degraded = [problem for heard in done.answers for problem in heard.degraded]
    if done.changed:
        yield _CHANGED
    if degraded:
        less = counted(len(degraded), "answer was", "answers were")
        yield f"{less} less than what was asked for, such as {degraded[0]}"


def run_metrics(measured: Measured) -> dict[str, Any]:
    """Means of all metrics (None where there is no judged query), number of queries, and latencies in ms."""
    means = {name: mean if math.isfinite(mean) else None for name, mean in measured.evaluation.means.items()}
    latencies = {
        f"{name}_p{round(100 * share)}_ms": measured.run.percentile_ms(name, share)
        for name in STAGES
        for share in (0.5, 0.95)
    }
    return {"queries": len(measured.evaluation.query_ids), **means, **latencies}
