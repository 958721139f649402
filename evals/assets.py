"""Assets that measure a profile and gate its promotion, by tenant and profile.

One step measures and judges, so that candidate and baseline meet the same corpus and the same machine; the pointer
is an asset of its own, behind a blocking check, and its statement requires the verdict in the database once more.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of this file as objects.

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import dagster as dg
from upath import UPath

from evals.datasets import EvalSet
from evals.gate import GatePolicy, Verdict
from evals.labels import Labels
from evals.metrics import HEADLINE
from evals.report import Measured, Report, render
from evals.runner import GateOutcome, judge, measure, stored_set
from evals.runs import write_parquet, write_trec
from rag_assets.assets.metadata import records_table, seconds
from rag_assets.assets.steps import OWNERS, Text, Whole, pair_of, profiles_of, working
from rag_assets.errors import PromotionRefused, UsageError
from rag_assets.io_managers import make_folder, staging_base, staging_folder
from rag_assets.partitions import tenant_profile
from rag_assets.resources import Postgres
from rag_assets.store.database import Database
from rag_assets.store.evals import EarlierRun, previous_run
from rag_assets.store.profiles import BuiltProfile
from rag_assets.store.promotion import promote

_GROUP = "evaluation"
MAX_FALL = 0.02  # of Recall@5 between two runs of one profile; less is what a few changed documents do


class EvalConfig(dg.Config):
    """How a run measures. `min_recall_gain` is relative; `non_inferior`, if set, is the margin in Recall@5 that the
    candidate may lose, and replaces the gain. An empty `bot` means all bots of the tenant."""

    bot: Text = ""
    mode: Literal["dense", "lexical", "hybrid"] = "hybrid"
    min_recall_gain: float = 0.10
    non_inferior: float | None = None
    min_queries: Whole = 30

    @property
    def policy(self) -> GatePolicy:
        gain = self.min_recall_gain if self.non_inferior is None else None
        return GatePolicy(min_recall_gain=gain, non_inferior=self.non_inferior, min_queries=self.min_queries)


@dataclass(frozen=True)
class _Judged:
    """One bot's part: what was measured, and the verdict unless the profile serves already."""

    bot: str
    evalset: EvalSet
    labels: Labels
    measured: Measured
    run_id: int
    outcome: GateOutcome | None

    @property
    def verdict(self) -> Verdict | None:
        return self.outcome.verdict if self.outcome else None


def _judge(database: Database, built: BuiltProfile, config: EvalConfig) -> _Judged:
    name = built.profile.name
    evalset = stored_set(database, built.tenant, built.bot).evalset
    if built.status == "active":
        run = measure(database, built.tenant, built.bot, name, config.mode)
        return _Judged(built.bot, evalset, run.labels, run.measured, run.id, None)
    outcome = judge(database, built.tenant, built.bot, name, None, config.mode, config.policy)
    return _Judged(built.bot, outcome.evalset, outcome.labels, outcome.candidate, outcome.candidate_run_id, outcome)


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            "eval_dataset",
            deps=["hnsw_index", "gin_index"],
            description="The labelled queries of the tenant's bots, and what is wrong with their labels.",
            group_name=_GROUP,
            owners=OWNERS,
            kinds={"postgres"},
        ),
        dg.AssetSpec(
            "retrieval_run",
            deps=["eval_dataset"],
            description="What came back for each labelled query, kept as a TREC run and as Parquet.",
            group_name=_GROUP,
            owners=OWNERS,
            kinds={"parquet"},
        ),
        dg.AssetSpec(
            "eval_metrics",
            deps=["retrieval_run"],
            description="Recall@5, hit rate, MRR, nDCG and precision of the profile, with a report.",
            group_name=_GROUP,
            owners=OWNERS,
            kinds={"python"},
        ),
    ],
    check_specs=[
        dg.AssetCheckSpec(
            "promotion_gate",
            asset="eval_metrics",
            blocking=True,
            partitions_def=tenant_profile,
            description="Every criterion of the gate holds for every bot, or the profile serves already.",
        ),
        dg.AssetCheckSpec(
            "no_regression",
            asset="eval_metrics",
            partitions_def=tenant_profile,
            description=f"Recall@5 has not fallen by more than {MAX_FALL} since the run before, asked the same way.",
        ),
    ],
    partitions_def=tenant_profile,
)
def evaluation(
    context: dg.AssetExecutionContext, config: EvalConfig, postgres: Postgres
) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
    began = time.monotonic()
    tenant, profile = pair_of(context)
    with working(context):
        database = postgres.database()
        judged = [_judge(database, built, config) for built in _with_labels(context, database, config)]
        earlier = {one.bot: _earlier(database, tenant, one) for one in judged}
        folders = [_keep_run(tenant, profile, one) for one in judged]
    yield dg.MaterializeResult(
        asset_key="eval_dataset",
        metadata={
            "queries": sum(len(one.evalset.judged) for one in judged),
            "critical": sum(len(one.evalset.critical) for one in judged),
            "labels_of_unknown_documents": sum(len(one.labels.without_document) for one in judged),
            "ambiguous_labels": sum(len(one.labels.ambiguous or {}) for one in judged),
            "judged_share": min((1 - one.labels.lost_share for one in judged), default=1.0),
            "problems": sum(len(one.evalset.problems) for one in judged),
        },
    )
    yield dg.MaterializeResult(
        asset_key="retrieval_run",
        metadata={
            "folder": ", ".join(folders),
            "p50_ms": max((one.measured.run.percentile_ms("total", 0.5) or 0.0 for one in judged), default=0.0),
            "p95_ms": max((one.measured.run.percentile_ms("total", 0.95) or 0.0 for one in judged), default=0.0),
        },
    )
    yield dg.MaterializeResult(
        asset_key="eval_metrics",
        metadata={
            **_means(judged),
            "mode": config.mode,
            "report": dg.MetadataValue.md("\n\n".join(render(_report(tenant, one, config)) for one in judged)),
            "seconds": seconds(time.monotonic() - began),
        },
    )
    yield _check(judged)
    yield _regression_check(earlier)


def _with_labels(context: dg.AssetExecutionContext, database: Database, config: EvalConfig) -> list[BuiltProfile]:
    """The bots of the pair that have labelled queries.

    Raises:
        UsageError: none has; says how to bring some.
    """
    found = []
    for built in profiles_of(context, database, config):
        try:
            stored_set(database, built.tenant, built.bot)
        except UsageError as error:
            context.log.warning(str(error))
            continue
        found.append(built)
    if not found:
        tenant, _ = pair_of(context)
        raise UsageError(
            f"no bot of tenant {tenant!r} has labelled queries: rag eval import DIR --tenant {tenant} --bot BOT"
        )
    return found


def _keep_run(tenant: str, profile: str, one: _Judged) -> str:
    folder: UPath = staging_folder(tenant) / profile / "runs" / one.bot
    make_folder(folder, staging_base())
    with TemporaryDirectory() as scratch:
        written = [Path(scratch) / "run.trec", Path(scratch) / "run.parquet"]
        write_trec(one.measured.run, written[0], profile)
        write_parquet(one.measured.run, written[1])
        for path in written:
            (folder / path.name).write_bytes(path.read_bytes())
    return str(folder)


def _means(judged: list[_Judged]) -> dict[str, float]:
    """The mean of each metric over all bots' queries together."""
    weights = [len(one.measured.evaluation.query_ids) for one in judged]
    total = sum(weights)
    if total == 0:
        return {}
    return {
        name: sum(w * float(one.measured.evaluation.means[name]) for w, one in zip(weights, judged, strict=True))
        / total
        for name in HEADLINE
    }


def _report(tenant: str, one: _Judged, config: EvalConfig) -> Report:
    return Report(
        title=f"{tenant}/{one.bot}: {one.measured.name}",
        evalset=one.evalset,
        candidate=one.measured,
        baseline=one.outcome.baseline if one.outcome else None,
        verdict=one.verdict,
        facts=(("tenant", tenant), ("bot", one.bot), ("mode", config.mode)),
    )


def _check(judged: list[_Judged]) -> dg.AssetCheckResult:
    verdicts = {one.bot: one.verdict for one in judged if one.verdict is not None}
    criteria: list[dict[str, Any]] = [
        {
            "bot": bot,
            "criterion": criterion.name,
            "passed": {True: "yes", False: "no", None: "not judged"}[criterion.passed],
            "reason": criterion.reason,
        }
        for bot, verdict in verdicts.items()
        for criterion in verdict.criteria
    ]
    return dg.AssetCheckResult(
        check_name="promotion_gate",
        asset_key=dg.AssetKey("eval_metrics"),
        passed=all(verdict.outcome == "passed" for verdict in verdicts.values()),
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "outcome": ", ".join(f"{bot}: {verdict.outcome}" for bot, verdict in verdicts.items()) or "serves already",
            "criteria": records_table(criteria),
        },
    )


def _earlier(database: Database, tenant: str, one: _Judged) -> EarlierRun | None:
    with database.work(tenant) as connection:
        return previous_run(connection, one.run_id)


def _regression_check(earlier: dict[str, EarlierRun | None]) -> dg.AssetCheckResult:
    compared = {bot: run for bot, run in earlier.items() if run is not None}
    fallen = [bot for bot, run in compared.items() if run.fell(MAX_FALL)]
    said = [
        f"{bot}: Recall@5 went from {run.recall_before:.4f} (run {run.id}) to {run.recall_now:.4f}"
        for bot, run in compared.items()
    ]
    return dg.AssetCheckResult(
        check_name="no_regression",
        asset_key=dg.AssetKey("eval_metrics"),
        passed=not fallen,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(said) or "there is no earlier run of this profile to compare with",
        metadata={"fallen": ", ".join(fallen) or "none", "allowed_fall": MAX_FALL},
    )


@dg.asset(
    partitions_def=tenant_profile,
    deps=["eval_metrics"],
    group_name=_GROUP,
    owners=OWNERS,
    kinds={"postgres"},
)
def active_profile(
    context: dg.AssetExecutionContext, config: EvalConfig, postgres: Postgres
) -> dg.MaterializeResult[None]:
    """The pointer to the profile that serves. It moves on a passed verdict only, which its statement requires too."""
    moved, refused = {}, []
    with working(context):
        database = postgres.database()
        tenant, profile = pair_of(context)
        for built in profiles_of(context, database, config):
            if built.status == "active":
                continue
            try:
                moved[built.bot] = promote(database, tenant, built.bot, profile).previous
            except PromotionRefused as error:
                refused.append(f"{built.bot}: {error}")
    if refused:
        raise dg.Failure("; ".join(refused), allow_retries=False)
    return dg.MaterializeResult(
        metadata={"promoted": ", ".join(f"{bot} (was {before})" for bot, before in moved.items()) or "serves already"}
    )
