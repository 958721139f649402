"""`rag batches`."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_assets.commands.options import Json, Tenant, key
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult, printable
from rag_assets.errors import UsageError
from rag_assets.store.batch_jobs import BatchJob, list_jobs
from rag_assets.store.tenants import spaces_of

_FIELDS = (
    "id", "bot", "profile", "state", "remote_state", "items", "tokens", "created_at", "submitted_at", "ended_at",
    "deadline", "error",
)  # fmt: skip


def batches(
    tenant: Tenant,
    bot: Annotated[
        str | None, typer.Option("--bot", help="Only of this bot.", show_default=False, callback=key("bot"))
    ] = None,
    cancel: Annotated[
        str | None,
        typer.Option(
            "--cancel", metavar="ID", help="Cancel this job; its texts are then embedded at once.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> CommandResult:
    """List a tenant's batch jobs, or cancel one.

    The texts of a job that is cancelled or fails are embedded directly, at the full price, by the next run: to
    embed nothing more, set a cost ceiling or retire the profile. A job that has ended is paid for and cannot be
    cancelled.
    """
    job_id = _job_id(cancel) if cancel is not None else None
    with ready_database() as database:
        with database.work(tenant) as connection:
            spaces_of(connection, tenant, bot)
        if job_id is not None:
            from rag_assets.ingest.batch_api.collect import cancel_job  # loads the provider's library, 0.3 s

            found = [cancel_job(database, tenant, job_id)]
        else:
            with database.work(tenant) as connection:
                found = list_jobs(connection, tenant, bot)
    payload = {"tenant": tenant, "jobs": [_payload(job) for job in found]}
    return CommandResult(payload, lambda console: _show(console, tenant, found))


def _job_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no id of a batch job; `rag batches` lists them") from error


def _payload(job: BatchJob) -> dict[str, Any]:
    values = {name: getattr(job, name) for name in _FIELDS}
    return {**values, "id": str(job.id)}


def _show(console: Console, tenant: str, jobs: list[BatchJob]) -> None:
    if not jobs:
        console.print(f"tenant {tenant} has no batch jobs", markup=False)
        return
    table = Table("id", "bot", "profile", "state", "texts", "tokens", "created", "error")
    for column in (4, 5):
        table.columns[column].justify = "right"
    for job in jobs:
        state = f"{job.state} ({job.remote_state.lower()})" if job.is_open and job.remote_state else job.state
        cells = (
            str(job.id), job.bot, job.profile, state, f"{job.items:,}", f"{job.tokens:,}",
            f"{job.created_at:%Y-%m-%d %H:%M}", printable(job.error or ""),
        )  # fmt: skip
        table.add_row(*(Text(cell) for cell in cells))
    console.print(table)
