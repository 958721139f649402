"""`rag inspect`: what a parser sees in a file, and where its chunks begin and end. Needs no database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_assets.commands.bars import shown
from rag_assets.commands.chunking import parse_chunking
from rag_assets.commands.inspect_html import page
from rag_assets.commands.inspected import Inspected, inspect_files
from rag_assets.commands.options import Encoding, Json
from rag_assets.commands.shell import CommandResult, note, printable
from rag_assets.documents.model import Chunk
from rag_assets.documents.names import spoken_key
from rag_assets.documents.poor import poor_reasons
from rag_assets.documents.quality import QUALITY
from rag_assets.errors import UsageError
from rag_assets.ingest.roots import check_encoding
from rag_assets.printing import counted
from rag_assets.settings import load_settings

_SHOWN_CHUNKS = 12
_SHOWN_CHARACTERS = 70


def inspect(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files, folders or addresses of pages.")],
    chunking: Annotated[
        str | None,
        typer.Option(
            help="STRATEGY:SIZE:OVERLAP[:NAME=VALUE,...], such as markdown:1200:0. (default: as built-in profiles)",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write a page that shows the text with its chunks.")
    ] = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> CommandResult:
    """Show what the parser sees in files, and where chunks begin and end. Needs no database.

    A file that cannot be read is listed as failed, with the reason, and the exit code stays 0.
    """
    spec = parse_chunking(chunking)
    if encoding is not None:
        check_encoding(encoding)
    load_settings()  # a wrong one is told before anything is read
    if html is not None and html.is_dir():
        raise UsageError(f"--html names a file to write, and {html} is a folder")
    with shown(silent=as_json, kept="nothing was written"):
        found = inspect_files(files, spec, encoding)
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(page(found, spec), encoding="utf-8")
        note(f"wrote {html}")
    payload = {"chunking": spec.model_dump(mode="json"), "files": [_payload(item) for item in found]}
    return CommandResult(payload, lambda console: _show(console, found))


def _payload(item: Inspected) -> dict[str, Any]:
    document = item.record.document
    return {
        "path": item.path,
        "status": item.record.status,
        "error": item.record.error,
        "content_type": item.content_type,
        "language": document.language if document else None,
        "title": document.title if document else None,
        "metadata": dict(document.metadata) if document else {},
        "poor": _poor(item),
        "text": document.text if document else "",
        "chunks": [_chunk_payload(chunk) for chunk in item.chunks],
    }


def _chunk_payload(chunk: Chunk) -> dict[str, Any]:
    fields: dict[str, Any] = {"start": chunk.start, "end": chunk.end, "content": chunk.content}
    fields |= {"tokens": chunk.token_count, "page": chunk.page, "headings": list(chunk.heading_path)}
    return fields | {"context": chunk.context}


def _show(console: Console, found: list[Inspected]) -> None:
    for item in found:
        document = item.record.document
        style = {"ready": "bold", "no_text": "yellow"}.get(item.record.status, "bold red")
        console.print(Text(printable(_title(item)), style=style), soft_wrap=True)
        if document is None or not item.chunks:
            console.print(Text(f"  {item.record.status}: {printable(item.record.error or '')}"), soft_wrap=True)
            continue
        facts = [item.content_type or "", document.language or "", counted(len(document.text), "character")]
        console.print(Text(f"  {', '.join(fact for fact in facts if fact)}, {_count(len(item.chunks))}"))
        if reasons := _poor(item):
            console.print(Text(printable(f"  read poorly: {'; '.join(reasons)}"), style="yellow"), soft_wrap=True)
        table = Table("#", "start", "end", "tokens", "page", "headings", "begins with", box=None)
        for chunk in item.chunks[:_SHOWN_CHUNKS]:
            table.add_row(*_cells(chunk))
        console.print(table)
        if len(item.chunks) > _SHOWN_CHUNKS:
            console.print(f"  and {len(item.chunks) - _SHOWN_CHUNKS:,} more; all of them with --json or --html")


def _poor(item: Inspected) -> list[str]:
    document = item.record.document
    return [reason.words for reason in poor_reasons(document.metadata.get(QUALITY))] if document else []


def _count(chunks: int) -> str:
    return counted(chunks, "chunk")


def _title(item: Inspected) -> str:
    """Its path; a record that is called after its place is named by that: `rows.jsonl, line 3`."""
    own = item.record.key.rpartition("#")[2]
    spoken = spoken_key(own, item.record.place)
    return item.path if spoken == own else f"{item.path.removesuffix(f'#{own}')}, {spoken}"


def _cells(chunk: Chunk) -> tuple[str | Text, ...]:
    first = " ".join(chunk.content.split())[:_SHOWN_CHARACTERS]
    numbers = (chunk.index, chunk.start, chunk.end, chunk.token_count, "" if chunk.page is None else chunk.page)
    return (*map(str, numbers), Text(printable(" › ".join(chunk.heading_path))), Text(printable(first)))
