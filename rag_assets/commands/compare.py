"""`rag compare`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_assets.commands.bars import shown
from rag_assets.commands.evaluate import number_text
from rag_assets.commands.filters import Filter, Since, Until, parse_filters, require_keys
from rag_assets.commands.options import Bot, Json, Tenant
from rag_assets.commands.search import citation_text, query_words, snippet
from rag_assets.commands.session import check_names, ready_database
from rag_assets.commands.shell import CommandResult, code_of, note, printable
from rag_assets.doors.compare.differences import Placed, placed, told
from rag_assets.doors.compare.labelled import LabelledComparison, compare_labelled
from rag_assets.doors.compare.page import HOST, ComparePage, change_text, p_text, score_texts, serve
from rag_assets.doors.compare.sides import FORM, Asker, Side, SideAnswer, ask_side, parse_side
from rag_assets.doors.listening import listening
from rag_assets.errors import UsageError
from rag_assets.retrieval import Retriever
from rag_assets.store.database import Database
from rag_assets.store.profiles import built_profiles

_STYLES = {"up": "green", "down": "yellow", "other passage": "yellow", "only here": "bold red", "same": "dim"}
_SNIPPET_CHARS = 160
_SHOWN_QUERIES = 20
_USUAL = ("@hybrid", "@dense", "@lexical")


def compare(
    tenant: Tenant,
    bot: Bot,
    first: Annotated[str | None, typer.Argument(metavar="P", help=f"One side: {FORM}.", show_default=False)] = None,
    second: Annotated[str | None, typer.Argument(metavar="Q", help="The other side.", show_default=False)] = None,
    query: Annotated[
        str | None,
        typer.Argument(
            help="The question. (default: all labelled queries of the bot; nothing is recorded)", show_default=False
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Most results of each side.", min=1, max=100)] = 8,
    user: Annotated[
        str | None, typer.Option(help="The user who asks; private sources of no one else are searched.")
    ] = None,
    filter_: Filter = None,
    since: Since = None,
    until: Until = None,
    serve_: Annotated[
        bool, typer.Option("--serve", help="Show a page with both sides on this machine; Ctrl-C ends it.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of the page.", min=0, max=65535)] = 8001,
    as_json: Json = False,
) -> CommandResult | int:
    """Show two profiles or retrievers side by side, with what differs between their answers.

    For each result: where the other side has the same passage, its place by meaning and by words, and what a
    reranker thinks of it. Without a question, the labelled queries that differ most, and the means.
    """
    if user == "":
        raise UsageError("--user is empty; leave it out to search without a user")
    words = [word for word in (first, second) if word is not None]
    if len(words) != 2 and not (serve_ and not words):
        raise UsageError("two sides are compared: rag compare P Q [QUERY]; only with --serve they may be left out")
    if serve_ and as_json:
        raise UsageError("--serve shows a page, and --json prints an answer: leave one of them out")
    sides = [parse_side(word) for word in words]
    who = Asker(tenant, bot, user, k, parse_filters(filter_ or [], since, until))
    with ready_database() as database:
        check_names(database, tenant, bot, *(side.profile for side in sides))
        require_keys(database, tenant, bot, who.filters)
        if serve_:
            return _serve(database, who, sides, port)
        retrievers = [side.retriever(database) for side in sides]
        if query is None:
            return _all_labelled(database, who, sides, retrievers, as_json)
        if not query.strip():
            raise UsageError("the query is empty")
        answers = [ask_side(database, *pair, who, query) for pair in zip(sides, retrievers, strict=True)]
    a, b = answers
    payload = {"tenant": tenant, "bot": bot, "query": query, "first": told(a, b), "second": told(b, a)}
    return CommandResult(payload, lambda console: _show(console, query, a, b))


def _all_labelled(
    database: Database, who: Asker, sides: Sequence[Side], retrievers: Sequence[Retriever], as_json: bool
) -> CommandResult:
    if who.user is not None or who.filters:
        raise UsageError(
            "labelled queries are asked as they are: --user, --filter, --since and --until go with a QUERY"
        )
    with shown(silent=as_json, kept="nothing is recorded"):
        found = compare_labelled(database, sides, retrievers, who.tenant, who.bot)
    names = [side.word for side in sides]
    payload = {"tenant": who.tenant, "bot": who.bot, "first": names[0], "second": names[1], **found.as_dict()}
    return CommandResult(payload, lambda console: _show_labelled(console, names, found))


def _serve(database: Database, who: Asker, sides: Sequence[Side], port: int) -> int:
    files = {side.file.name: side.file for side in sides if side.file}
    with closing(listening(HOST, port)) as listens:
        with database.work(who.tenant) as connection:
            built = built_profiles(connection, who.tenant, who.bot)
        candidates = [one.profile.name for one in built if one.status == "ready"]
        named = [side.word for side in sides] or ["@hybrid", *candidates[-1:], "@dense"][:2]
        offered = list(dict.fromkeys([*named, *_USUAL, *(one.profile.name for one in built), *files]))
        note(f"Compare: http://{HOST}:{listens.getsockname()[1]}/ (on this machine only; Ctrl-C ends it)", "bold")
        return code_of(serve(ComparePage(database, who, offered, files), listens))


def _show(console: Console, query: str, first: SideAnswer, second: SideAnswer) -> None:
    words = query_words(query)
    for mine, other in ((first, second), (second, first)):
        _show_side(console, mine, placed(mine.found.results, other.found.results), words)


def _show_side(console: Console, answer: SideAnswer, rows: Sequence[Placed], words: Sequence[str]) -> None:
    found, how = answer.found, answer.side.file.name if answer.side.file else answer.side.mode
    took = ", ".join(f"{stage} {ms:.0f} ms" for stage, ms in found.timings_ms.items())
    title = f"{answer.side.word}: profile {answer.profile}, {how} · {took}"
    console.print(Text(printable(title), style="bold"))
    if found.degraded:
        console.print(Text(f"Warning: {printable(found.degraded)}", style="yellow"))
    table = Table("", "there", "score", "source and passage", "by", box=None, pad_edge=False)
    for row in rows:
        result = row.result
        cited = citation_text(result.citation, result.source_name)
        passage = Text.assemble(
            (printable(result.source_name), "bold cyan"), (f"  {printable(cited)}\n", "dim"),
            printable(snippet(result.content, words, _SNIPPET_CHARS)),
        )  # fmt: skip
        table.add_row(
            f"{row.place}.", Text(change_text(row), style=_STYLES[row.change]), f"{result.score:.3f}", passage,
            "\n".join(score_texts(result, answer.places(result.chunk_id))),
        )  # fmt: skip
    console.print(table if rows else Text("no reliable source in this scope", style="yellow"))
    for step in found.trace:
        facts = ", ".join(f"{name} {value}" for name, value in step.items() if name != "stage" and value is not None)
        console.print(Text(printable(f"{step['stage']}: {facts}"), style="dim"))
    console.print()


def _show_labelled(console: Console, names: Sequence[str], found: LabelledComparison) -> None:
    table = Table("metric", *map(printable, names), "difference", "p", "better", "worse", "equal")
    for one in found.means:
        numbers = [number_text(one.mean_a, 4), number_text(one.mean_b, 4), f"{one.diff:+.4f}", p_text(one.p_value)]
        table.add_row(one.metric, *numbers, *map(str, (one.wins, one.losses, one.ties)))
    console.print(table)
    different = [one for one in found.queries if one.gain]
    if different:
        console.print(_differences(different[:_SHOWN_QUERIES]))
    if len(different) > _SHOWN_QUERIES:
        console.print(f"and {len(different) - _SHOWN_QUERIES} more that differ; all of them with --json or --serve")
    for reason in found.degraded[:3]:
        console.print(Text(f"Warning: {printable(reason)}", style="yellow"))


def _differences(queries: Sequence[Any]) -> Table:
    table = Table("query", "id", "gain")
    for one in queries:
        text = Text(printable(one.text), style="bold" if one.critical else "")
        table.add_row(text, printable(one.id), Text(f"{one.gain:+.3f}", style="green" if one.gain > 0 else "red"))
    return table
