"""`make demo`: the bundled documents of two tenants become searchable, stay apart, and a better profile is promoted."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from evals.gate import Verdict
from evals.runner import import_set, judge
from rag_assets.children import PRIVATE
from rag_assets.commands.bars import shown
from rag_assets.commands.ingest import ingest_roots, outcome_payload, show_outcome
from rag_assets.commands.search import search_bot, show_results
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import guarded, resumable, stdout_console
from rag_assets.errors import PromotionRefused, RagError
from rag_assets.printing import counted
from rag_assets.retrieval import open_scope
from rag_assets.settings import Settings, load_settings
from rag_assets.store.database import Database
from rag_assets.store.promotion import promote
from rag_assets.store.search import Mode
from rag_assets.store.sources import sources_overview

BOTS = {"quarrowby": "support", "orrelune": "docs"}
BASELINE, CANDIDATE = "static-64", "static-256"
# In this order: the first complete profile of a bot becomes its active one.
PROFILES = {"quarrowby": (CANDIDATE,), "orrelune": (BASELINE, CANDIDATE)}


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


# The bot whose candidate is judged, and a query that the candidate answers better.
JUDGED = "orrelune"
BEFORE_AND_AFTER = "What is throttling us: storage, CPU or network?"


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
    with ready_database(settings, makes_home=True) as database:
        for tenant in BOTS:
            _ingest(console, database, settings, tenant)
        for question in QUESTIONS:
            _ask(console, database, question)
        compared = _check_isolation(database)
        console.print(Rule("two tenants, one table", align="left"))
        console.print(
            f"Every question was put to both tenants: {counted(compared, 'result')}, each from a document of the "
            "tenant that was asked. The database enforces it, not the query."
        )
        _evaluate(console, database)
    _show_next(console, time.perf_counter() - started)


def _ingest(console: Console, database: Database, settings: Settings, tenant: str) -> None:
    bot = BOTS[tenant]
    for profile in PROFILES[tenant]:
        console.print(Rule(f"ingest {tenant}/{bot} with {profile}", align="left"))
        with shown():
            name, outcome = ingest_roots(database, settings, tenant, bot, [str(bundled_sources(tenant))], profile)
        show_outcome(console, outcome_payload(tenant, bot, name, outcome))


def _ask(console: Console, database: Database, question: Question) -> None:
    bot = BOTS[question.tenant]
    console.print(Rule(f"{question.tenant}/{bot} · {question.shows}", align="left"))
    console.print(Text(f'rag search "{question.text}" --tenant {question.tenant} --bot {bot} -k 2\n', style="bold"))
    name, found = search_bot(database, question.text, question.tenant, bot, k=2)
    show_results(console, question.text, name, "hybrid", found)


def _check_isolation(database: Database) -> int:
    """Put every question to both tenants; the number of results, none of which is the other tenant's.

    Raises:
        RagError: a result's source belongs to another tenant.
    """
    compared = 0
    for tenant, bot in BOTS.items():
        with database.work(tenant) as connection:
            own = {source["source_id"] for source in sources_overview(connection, tenant, bot)}
        for question in QUESTIONS:
            _, found = search_bot(database, question.text, tenant, bot, k=20)
            strangers = [result.source_name for result in found if result.source_id not in own]
            if strangers:
                raise RagError(f"{tenant} was shown sources that are not its own: {', '.join(strangers)}")
            compared += len(found)
    return compared


def _evaluate(console: Console, database: Database) -> None:
    """Judge the candidate, promote it if that passes, and see the way back refused."""
    labels = import_set(database, JUDGED, BOTS[JUDGED], bundled_sources(JUDGED).parent)
    console.print(Rule(f"{JUDGED}/{BOTS[JUDGED]} · is {CANDIDATE} better than {BASELINE}?", align="left"))
    console.print(f"{counted(len(labels.judged), 'labelled query')}, {len(labels.critical)} of them critical.\n")
    fused = _judged(console, database, CANDIDATE, BASELINE, "hybrid")
    console.print(
        f"In hybrid mode, the default, the outcome is: {fused.outcome}. Words make up for much of what vectors lack. "
        "The promotion below rests on the verdict on dense search, for a bot that searches by meaning alone.\n"
    )
    verdict = _judged(console, database, CANDIDATE, BASELINE, "dense")
    _show_before_and_after(console, database, verdict)
    console.print(Rule(f"{JUDGED}/{BOTS[JUDGED]} · and back to {BASELINE}?", align="left"))
    _show_refusal(console, database, _judged(console, database, BASELINE, CANDIDATE, "dense"))


def _judged(console: Console, database: Database, candidate: str, baseline: str, mode: Mode) -> Verdict:
    with shown():
        verdict = judge(database, JUDGED, BOTS[JUDGED], candidate, baseline, mode).verdict
    command = f"rag eval gate --tenant {JUDGED} --bot {BOTS[JUDGED]} --candidate {candidate} --baseline {baseline}"
    console.print(Text(f"{command} --mode {mode}\n", style="bold"), soft_wrap=True)
    table = Table("criterion", "", "reason")
    for one in verdict.criteria:
        word, style = {True: ("holds", "green"), False: ("fails", "red"), None: ("not judged", "yellow")}[one.passed]
        table.add_row(one.name, Text(word, style=style), Text(one.reason))
    console.print(table)
    console.print(f"{candidate} against {baseline}, {mode}: {verdict.outcome}\n", style="bold")
    return verdict


def _show_before_and_after(console: Console, database: Database, verdict: Verdict) -> None:
    active = _active(database)
    if active == CANDIDATE:
        console.print(f"{CANDIDATE} serves already: nothing to promote.")
    elif verdict.outcome != "passed" or active != BASELINE:
        console.print(f"{active} goes on serving: {CANDIDATE} was not judged to be better than it.")
    else:
        _search(console, database, "before")
        _promote(console, database)
    _search(console, database, "now")


def _promote(console: Console, database: Database) -> None:
    bot = BOTS[JUDGED]
    moved = promote(database, JUDGED, bot, CANDIDATE)
    console.print(Rule(f"{JUDGED}/{bot} · promoted", align="left"))
    console.print(Text(f"rag promote {CANDIDATE} --tenant {JUDGED} --bot {bot}\n", style="bold"))
    console.print(f"{moved.active} serves now; before: {moved.previous}")


def _search(console: Console, database: Database, when: str) -> None:
    name, found = search_bot(database, BEFORE_AND_AFTER, JUDGED, BOTS[JUDGED], mode="dense", k=2)
    console.print(Rule(f"{JUDGED}/{BOTS[JUDGED]} · {when}, by {name}", align="left"))
    show_results(console, BEFORE_AND_AFTER, name, "dense", found)


def _show_refusal(console: Console, database: Database, verdict: Verdict) -> None:
    if _active(database) != CANDIDATE:
        return
    try:
        promote(database, JUDGED, BOTS[JUDGED], BASELINE)
    except PromotionRefused as error:
        console.print(f"refused: {error}", style="red", markup=False)
        return
    raise RagError(f"{BASELINE} was promoted on a verdict that is {verdict.outcome}")


def _active(database: Database) -> str:
    return open_scope(database, JUDGED, BOTS[JUDGED]).profile.name


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


def _demo() -> None:
    with resumable("what was read is kept"):
        run(stdout_console())


def main() -> None:
    """Entry point of `python -m rag_assets.demo`."""
    os.umask(PRIVATE)
    sys.exit(guarded(_demo))


if __name__ == "__main__":
    main()
