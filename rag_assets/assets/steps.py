"""What the steps of all assets share: which pair they work for, their progress, and where they run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias

import dagster as dg
from pydantic import AfterValidator

from rag_assets import progress
from rag_assets.assets.metadata import seconds
from rag_assets.errors import UsageError
from rag_assets.ingest.pairs import require_pair
from rag_assets.printing import printable
from rag_assets.runs.processes import PROCESS_TAG, this_process
from rag_assets.runs.reports import add_seconds
from rag_assets.store.database import Database
from rag_assets.store.overview import BotIndexes, BotProfile, indexes_by_bot, profile_by_bot
from rag_assets.store.profiles import BuiltProfile

OWNERS = ["team:retrieval"]


# What a run's configuration may hold. For a str, int or bool Dagster would also take `{"env": "NAME"}`, and the value
# of that variable, which may be a key, would be in the error of whoever cannot use it.
if TYPE_CHECKING:
    Text: TypeAlias = str
    Whole: TypeAlias = int
    Flag: TypeAlias = bool
else:

    def _written_out(kind: type) -> Any:
        def check(value: object) -> object:
            if type(value) is not kind:
                raise ValueError(f"has to be written out, as {kind.__name__}")
            return value

        return Annotated[Any, AfterValidator(check)]

    Text, Whole, Flag = map(_written_out, (str, int, bool))


class IngestConfig(dg.Config):
    """What a run is limited to; an empty `bot` means all bots of the tenant. `batch`: embed through the provider's
    batch API, whatever the profile's settings say. `confirm_loss`: what is gone has gone on purpose, however much."""

    bot: Text = ""
    batch: Flag = False
    confirm_loss: Flag = False


class Step:
    """One step at work: how long it takes, and what it did."""

    def __init__(self) -> None:
        self._began, self._ended = time.monotonic(), 0.0

    def end(self) -> None:
        """Stop the clock."""
        self._ended = time.monotonic()
        add_seconds(self._ended - self._began)

    @property
    def seconds(self) -> dg.FloatMetadataValue:
        """How long the work took."""
        return seconds(self._ended - self._began)


@contextmanager
def working(context: dg.AssetExecutionContext) -> Iterator[Step]:
    """Around the work of a step: progress goes to its log, and a wrong request fails without another try.

    The run is marked with its process, so that one killed with `SIGKILL` can be told from one at work.
    """
    step = Step()
    if PROCESS_TAG not in context.run.tags:
        context.instance.add_run_tags(context.run.run_id, {PROCESS_TAG: this_process()})
    try:
        with reporting_to_log(context):
            yield step
    except UsageError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    finally:
        step.end()


def pair_of(context: dg.AssetExecutionContext) -> tuple[str, str]:
    """Tenant and profile of the step's partition."""
    key = context.partition_key
    if not isinstance(key, dg.MultiPartitionKey):
        raise dg.Failure(f"partition {key!r} does not name a tenant and a profile", allow_retries=False)
    return key.keys_by_dimension["tenant"], key.keys_by_dimension["profile"]


class LimitedToBot(Protocol):
    """A configuration that may name one bot."""

    bot: str


def profiles_of(context: dg.AssetExecutionContext, database: Database, config: LimitedToBot) -> list[BuiltProfile]:
    """What the step has to build.

    Raises:
        UnknownProfile: the pair is not enabled.
    """
    tenant, profile = pair_of(context)
    return require_pair(database, tenant, profile, config.bot or None)


def bots_of_pair(context: dg.AssetExecutionContext, database: Database) -> list[BotProfile]:
    """The whole partition as it is now, bot by bot."""
    tenant, profile = pair_of(context)
    with database.work(tenant) as connection:
        return profile_by_bot(connection, tenant, profile)


def indexes_of_pair(context: dg.AssetExecutionContext, database: Database) -> list[BotIndexes]:
    """The indexes of the whole partition as they are now, bot by bot."""
    tenant, profile = pair_of(context)
    with database.work(tenant) as connection:
        return indexes_by_bot(connection, tenant, profile)


_LOG_EVERY_S = 5.0  # each line is a row in the event log


class LogReporter:
    """Writes the beginning and end of a stage to the run's log, and a line every few seconds in between."""

    def __init__(self, log: dg.DagsterLogManager) -> None:
        self._log = log
        self._pace = progress.Pace("", None, _LOG_EVERY_S)

    def begin(self, what: str, total: int | None) -> None:
        """See `progress.Reporter.begin`."""
        self._pace = progress.Pace(what, total, _LOG_EVERY_S)
        self._log.info(printable(what) if total is None else f"{printable(what)}: {total:,} to do")

    def advance(self, amount: int) -> None:
        """See `progress.Reporter.advance`."""
        if line := self._pace.advance(amount):
            self._log.info(line)

    def end(self) -> None:
        """See `progress.Reporter.end`."""
        self._log.info(self._pace.end())


def reporting_to_log(context: dg.AssetExecutionContext) -> AbstractContextManager[None]:
    """Progress to the log of the step, unless somebody shows it already, as a terminal does."""
    if isinstance(progress.current(), progress.Silent):
        return progress.reporting(LogReporter(context.log))
    return nullcontext()
