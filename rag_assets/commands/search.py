"""`rag search`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rag_assets.commands.filters import Filter, Since, Until, parse_filters, require_keys, unknown_values
from rag_assets.commands.options import Bot, Json, RetrieverFile, SearchMode, Tenant, key
from rag_assets.commands.session import check_names, searched_database
from rag_assets.commands.shell import CommandResult, note, printable
from rag_assets.documents.names import part_name
from rag_assets.errors import ProfileNotReady, UnknownBot, UsageError
from rag_assets.printing import counted
from rag_assets.retrieval import Retrieval, RetrievalResult, RetrievalScope, Retriever, open_scope
from rag_assets.retrieval.retrievers import RETRIEVERS
from rag_assets.store.database import Database
from rag_assets.store.search import Mode
from rag_assets.terms.folding import alike, normal

_ROW = re.compile(r"(?:^|, )(?:line|item) \d+$")
_HASH = re.compile(r"[0-9a-f]{32}")
NOTHING = "no reliable source in this scope"
SNIPPET_CHARS = 320
_SHOWN_PLACES = 3  # other places of a text, in a line
_SPACES = {"tenant": "  shared by all bots", "user": "  private"}


def search(
    query: Annotated[str, typer.Argument(help="The question, or words, or a code.")],
    tenant: Tenant,
    bot: Bot,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Profile to search. (default: the bot's active one)", show_default=False, callback=key("profile")
        ),
    ] = None,
    mode: Annotated[
        SearchMode | None,
        typer.Option(help="By meaning, by words, or both fused. (default: hybrid)", show_default=False),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Most results to return.", min=1, max=1000)] = 8,
    user: Annotated[
        str | None, typer.Option(help="The user who asks; private sources of no one else are searched.")
    ] = None,
    request_key: Annotated[
        str | None,
        typer.Option(
            help="Decides whether a canary answers: the same key, the same profile. (default: never)",
            show_default=False,
        ),
    ] = None,
    copies: Annotated[
        bool, typer.Option("--copies", help="Return a text as often as it is there, not once with its other places.")
    ] = False,
    filter_: Filter = None,
    since: Since = None,
    until: Until = None,
    retriever: RetrieverFile = None,
    as_json: Json = False,
) -> CommandResult:
    """Search what a bot knows; nothing of another tenant or bot is ever returned.

    Each result shows its score, by which the list is ordered, and in brackets what it rests on: similarity by
    meaning and by words, each at most 1. Low values mean that nothing fits well. An empty result is a success
    too: "no reliable source in this scope".
    """
    _check(query, user, retriever, copies, mode)
    mode = mode or SearchMode.hybrid
    filters = parse_filters(filter_ or [], since, until)
    with searched_database() as database:
        require_keys(database, tenant, bot, filters)
        made = _retriever(database, retriever) if retriever else RETRIEVERS[mode.value](database, copies=copies)
        scope = opened(database, tenant, bot, profile, user, request_key)
        found = made.search(query, scope, k, filters)
        hints = [] if found else unknown_values(database, tenant, bot, filters)
    for hint in hints:
        note(printable(hint))
    how, name = str(retriever) if retriever else mode.value, scope.profile.name
    asked = {
        "profile": name,
        "mode": None if retriever else mode.value,
        "retriever": str(retriever) if retriever else None,
    }
    payload = {**asked, **found.to_dict()}
    return CommandResult(payload, lambda console: show_results(console, query, name, how, found))


def _retriever(database: Database, file: Path) -> Retriever:
    from rag_assets.retrieval.files import load_retriever  # chat models and rerankers, of which most searches need none

    return load_retriever(database, file)


def _check(query: str, user: str | None, retriever: Path | None, copies: bool, mode: SearchMode | None) -> None:
    if not query.strip():
        raise UsageError("the query is empty")
    if user == "":
        raise UsageError("--user is empty; leave it out to search without a user")
    if retriever is not None and mode is not None:
        raise UsageError("--mode and --retriever exclude each other: the file says how it searches")
    if retriever is not None and copies:
        raise UsageError("--copies goes with a --mode; the file of a retriever says copies = true where it wants them")


def opened(
    database: Database,
    tenant: str,
    bot: str,
    profile: str | None = None,
    user: str | None = None,
    request_key: str | None = None,
) -> RetrievalScope:
    """The scope of a search, for somebody who may know all names."""
    try:
        return open_scope(database, tenant, bot, profile, user, request_key)
    except (UnknownBot, ProfileNotReady):
        check_names(database, tenant, bot, profile)  # an application may not know other names; who runs this may
        raise


def search_bot(
    database: Database, query: str, tenant: str, bot: str, mode: Mode = "hybrid", k: int = 8
) -> tuple[str, Retrieval]:
    """Search a bot; returns the name of the profile that was searched, and what was found."""
    scope = opened(database, tenant, bot)
    return scope.profile.name, RETRIEVERS[mode](database).search(query, scope, k)


def show_results(console: Console, query: str, profile: str, mode: str, found: Retrieval) -> None:
    """Print results with their citations, best first."""
    if found.degraded:
        console.print(Text(f"Warning: {printable(found.degraded)}", style="yellow"))
    if not found:
        console.print(Text(NOTHING, style="yellow"))
    for stage in _stages(found):
        console.print(Text(printable(stage), style="dim"))
    words = query_words(query)
    for rank, result in enumerate(found, start=1):
        _show_result(console, rank, result, words)
    count = f"{len(found)} result{'' if len(found) == 1 else 's'}"
    took = ", ".join(f"{found.timings_ms[stage]:.0f} ms to {stage}" for stage in ("embed", "search"))
    console.print(Text(f"{count} · {mode} · profile {profile} · {took}", style="dim"))


def _show_result(console: Console, rank: int, result: RetrievalResult, words: Sequence[str]) -> None:
    name = printable(result.source_name)
    parts = (("meaning", result.dense_score), ("words", result.lexical_score), ("reranked", result.rerank_score))
    scores = ", ".join(f"{what} {score:.2f}" for what, score in parts if score is not None)
    console.print(
        Text.assemble(
            (f"{rank:>2}. ", "bold"), (name, "bold cyan"), (f"  {result.score:.3f}", "green"),
            (f"  ({scores})" if scores else "", "dim"), (_SPACES.get(result.space, ""), "dim"),
            (f"  index: {result.index}" if result.index else "", "dim"),
        )
    )  # fmt: skip
    citation = Text(printable(citation_text(result.citation, result.source_name)), style="dim")
    console.print(Padding(citation, (0, 0, 0, 4), expand=False))
    if result.path:
        console.print(Padding(Text(printable(_path_text(result.path)), style="dim"), (0, 0, 0, 4), expand=False))
    text = Text(printable(snippet(result.content, words)))
    for match in re.finditer(_word_pattern(words), alike(text.plain)) if words else ():
        text.stylize("bold yellow", *match.span())
    console.print(Padding(text, (0, 0, 0, 4), expand=False))
    console.print()


def _path_text(path: Sequence[Mapping[str, Any]]) -> str:
    """`Brimble valve is made by Corrin Works; Corrin Works has its seat in Harrowfen`."""
    return "by " + "; ".join(f"{step['subject']} {step['predicate']} {step['object']}" for step in path)


def _stages(found: Retrieval) -> list[str]:
    """What a stage has left out, read otherwise, or could not do, without making the answer a degraded one."""
    said = []
    for step in found.trace:
        for word, near in step.get("read_as", {}).items():
            said.append(f"words: no text has {word!r}; also looked for, and counted less: {', '.join(near)}")
        if (error := step.get("error")) and str(error) not in (found.degraded or ""):
            said.append(f"{step['stage']}: {error}")
        if step.get("stage") == "rerank" and step.get("dropped"):
            said.append(f"rerank: {counted(step['dropped'], 'candidate')} below tau left out")
    return said


def citation_text(citation: Mapping[str, Any], name: str = "") -> str:
    """`manuals/px.pdf, page 3, Setup › Pressure, characters 10–250`, without what equals `name`."""
    document, file, place = (str(citation.get(part) or "") for part in ("document", "file", "place"))
    if file and part_name(file, place) != name:
        # The own id of a row is a name to its readers, unless it is only the hash of what it says; that of an entry of
        # a calendar is for programs.
        is_known = document in (name, place, part_name(file, place)) or _HASH.fullmatch(document)
        parts = [file, place, "" if is_known or not _ROW.search(place) else document]
    else:
        parts = ["" if document == name else document]
    page, last = citation.get("page"), citation.get("page_end")
    if page is not None:
        parts.append(f"pages {page}–{last}" if last not in (None, page) else f"page {page}")
    parts.append(str(citation.get("heading") or ""))
    if "start" in citation:
        parts.append(f"characters {citation['start']}–{citation['end']}")
    parts.append(str(citation.get("url") or ""))
    others = [str(place.get("document") or place["source_name"]) for place in citation.get("also_at", ())]
    if others:
        more = f" and {len(others) - _SHOWN_PLACES} more" if len(others) > _SHOWN_PLACES else ""
        parts.append(f"also in {', '.join(dict.fromkeys(others[:_SHOWN_PLACES]))}{more}")
    return ", ".join(part for part in parts if part)


def query_words(query: str) -> list[str]:
    """What to mark in a result: words, codes, and pairs of characters where words have no gaps."""
    words: list[str] = []
    for word in re.findall(r"\w+(?:[-_.]\w+)*", alike(normal(query))):
        if re.search(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f\uac00-\ud7a3]", word):
            words += [word[i : i + 2] for i in range(len(word) - 1)]
        elif len(word) > 3 or any(character.isdigit() for character in word):
            words.append(word)
    return list(dict.fromkeys(words))


def _word_pattern(words: Sequence[str]) -> str:
    return "(?i)" + "|".join((r"\b" if word[0].isascii() else "") + re.escape(word) for word in words)


def snippet(content: str, words: Sequence[str], width: int = SNIPPET_CHARS) -> str:
    """The part of `content`, at most about `width` characters, that holds most of the words; on one line."""
    flat = " ".join(content.split())
    if len(flat) <= width:
        return flat
    low = alike(flat)
    hits = sorted(match.start() for word in words for match in re.finditer(re.escape(word), low))
    start = max(hits, key=lambda hit: (sum(hit <= other < hit + width for other in hits), -hit), default=0)
    start = max(0, min(start - width // 8, len(flat) - width))
    if start:
        start = flat.find(" ", start, start + 40) + 1 or start
    end = start + width
    if end < len(flat):
        end = max(flat.rfind(" ", end - 40, end), 0) or end
    return ("… " if start else "") + flat[start:end].strip() + (" …" if end < len(flat) else "")
