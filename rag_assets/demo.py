"""`make demo`: the bundled documents of two tenants become searchable, and stay apart."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from rag_assets.commands.bars import shown
from rag_assets.commands.ingest import DEFAULT_PROFILE, ingest_roots, outcome_payload, show_outcome
from rag_assets.commands.search import run_search, show_results
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import guarded, stdout_console
from rag_assets.errors import RagError
from rag_assets.settings import load_settings

if TYPE_CHECKING:
    from rag_assets.store.database import Database

BOTS = {"quarrowby": "support", "orrelune": "docs"}


@dataclass(frozen=True)
class Question:
    """A query of the bundled set, and what it is there to show."""

    tenant: str
    text: str
    shows: str


QUESTIONS = (
    Question("quarrowby", "What does ERR-2043 mean?", "an exact code"),
    Question("quarrowby", "My mobile with the six digits is gone. How do I get in now?", "a paraphrase"),
    Question("orrelune", "SYNC-5021", "nothing but a code"),
    Question("orrelune", "Wie verhindere ich, dass tagsüber Daten gesendet werden?", "a question in German"),
    Question(
        "quarrowby",
        "What does SYNC-5021 mean and how do I get rid of it?",
        "only the other tenant could answer",
    ),
    Question("quarrowby", "Do you run welding courses for beginners?", "nobody can answer: look at `meaning`"),
)


def bundled_sources(tenant: str) -> Path:
    """The folder of a bundled tenant's documents, in a checkout and in an installed wheel.

    Raises:
        RagError: the package `evals` was installed without its data.
    """
    folder = Path(str(files("evals"))) / "data" / tenant / "sources"
    if not folder.is_dir():
        raise RagError(f"the bundled documents are missing: {folder} does not exist")
    return folder


def run(console: Console) -> None:
    """Ingest both tenants, ask, and say how to go on."""
    started = time.perf_counter()
    settings = load_settings()
    with ready_database(settings) as database:
        for tenant, bot in BOTS.items():
            folder = bundled_sources(tenant)
            console.print(Rule(f"ingest {tenant}/{bot}", align="left"))
            with shown():
                name, outcome = ingest_roots(database, settings, tenant, bot, [str(folder)], DEFAULT_PROFILE)
            show_outcome(console, outcome_payload(tenant, bot, name, outcome))
        for question in QUESTIONS:
            _ask(console, database, question)
        compared = _check_isolation(database)
    console.print(Rule("two tenants, one table", align="left"))
    console.print(
        f"Every question was put to both tenants: {compared} results, each from a document of the tenant "
        "that was asked. The database enforces it, not the query."
    )
    _show_next(console, time.perf_counter() - started)


def _ask(console: Console, database: Database, question: Question) -> None:
    bot = BOTS[question.tenant]
    console.print(Rule(f"{question.tenant}/{bot} · {question.shows}", align="left"))
    console.print(Text(f'rag search "{question.text}" --tenant {question.tenant} --bot {bot} -k 2\n', style="bold"))
    name, found = run_search(database, question.text, question.tenant, bot, k=2)
    show_results(console, question.text, name, "hybrid", found)


def _check_isolation(database: Database) -> int:
    """Put every question to both tenants; the number of results, none of which is the other tenant's.

    Raises:
        RagError: a result's source belongs to another tenant.
    """
    from rag_assets.store.sources import sources_overview

    compared = 0
    for tenant, bot in BOTS.items():
        with database.transaction("ingest", {"tenant": tenant}) as connection:
            own = {source["source_id"] for source in sources_overview(connection, tenant, bot)}
        for question in QUESTIONS:
            _, found = run_search(database, question.text, tenant, bot, k=20)
            strangers = [result.source_name for result in found if result.source_id not in own]
            if strangers:
                raise RagError(f"{tenant} was shown sources that are not its own: {', '.join(strangers)}")
            compared += len(found)
    return compared


def _show_next(console: Console, seconds: float) -> None:
    console.print(Rule(f"done in {seconds:.1f} s", align="left"))
    for command, what in (
        ("rag dev", "(or make dev) the asset graph, runs and metadata on http://localhost:3000"),
        ("rag sources --tenant orrelune --bot docs", "what is known, and its state"),
        ("rag ingest ~/documents --tenant me --bot notes", "your own files, remembered and kept up to date"),
        ('rag search "..." --tenant me --bot notes --json', "for scripts"),
        ("rag erase --tenant me", "everything of a tenant goes, verified by count"),
    ):
        console.print(Text.assemble((f"  {command:<50}", "bold"), what), soft_wrap=True)


def main() -> None:
    """Entry point of `python -m rag_assets.demo`."""
    sys.exit(guarded(lambda: run(stdout_console())))


if __name__ == "__main__":
    main()
