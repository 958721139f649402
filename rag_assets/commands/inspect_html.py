"""A page that shows texts with their chunks: colours for chunks, a darker tone where two overlap."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise

from rag_assets.chunking import ChunkingSpec
from rag_assets.commands.inspected import Inspected
from rag_assets.documents.model import Chunk
from rag_assets.printing import counted

_COLOURS = 4
_STYLE = """
:root { color-scheme: light dark; --c0: 205 80% 60%; --c1: 140 50% 52%; --c2: 35 90% 58%; --c3: 280 50% 66%; }
body { font: 15px/1.55 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.6 ui-monospace, monospace; }
summary { cursor: pointer; font-weight: 600; } .failed { color: #c33; } .no_text { color: #b70; }
.c { border-radius: 2px; } .o { outline: 1px solid currentColor; outline-offset: -1px; }
.c0 { background: hsl(var(--c0) / .28); } .c1 { background: hsl(var(--c1) / .28); }
.c2 { background: hsl(var(--c2) / .28); } .c3 { background: hsl(var(--c3) / .28); }
.o.c0 { background: hsl(var(--c0) / .6); } .o.c1 { background: hsl(var(--c1) / .6); }
.o.c2 { background: hsl(var(--c2) / .6); } .o.c3 { background: hsl(var(--c3) / .6); }
sup { font-size: 10px; opacity: .7; user-select: none; }
"""


def page(found: Sequence[Inspected], spec: ChunkingSpec) -> str:
    """A whole HTML page; everything that comes from a file is escaped."""
    chunking = json.dumps(spec.model_dump(mode="json"))
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Chunks</title>',
        f"<style>{_STYLE}</style><h1>Chunks</h1>",
        f"<p>Chunking <code>{escape(chunking)}</code>. A number stands where its chunk begins; outlined text is in"
        " more than one chunk; text without a colour is in none.</p>",
        *(_file(item) for item in found),
    ]
    return "\n".join(parts) + "</html>\n"


def _file(item: Inspected) -> str:
    document, status = item.record.document, item.record.status
    head = f"<summary>{escape(item.path)} <span class={status}>{status}</span></summary>"
    if document is None or not item.chunks:
        return f"<details open>{head}<p>{escape(item.record.error or '')}</p></details>"
    facts = {"type": item.content_type, "language": document.language, "title": document.title}
    facts |= {"characters": f"{len(document.text):,}", "chunks": f"{len(item.chunks):,}"}
    facts |= {name: json.dumps(value, ensure_ascii=False) for name, value in document.metadata.items()}
    line = ", ".join(f"{name}: {value}" for name, value in facts.items() if value)
    return f"<details open>{head}<p>{escape(line)}</p><pre>{_marked(document.text, item.chunks)}</pre></details>"


def _marked(text: str, chunks: Sequence[Chunk]) -> str:
    """The text, cut wherever a chunk begins or ends."""
    starts = {chunk.start: chunk for chunk in chunks}
    edges = sorted({0, len(text), *starts, *(chunk.end for chunk in chunks)})
    parts: list[str] = []
    open_chunks: list[Chunk] = []
    waiting = iter(chunks)
    following = next(waiting, None)
    for start, end in pairwise(edges):
        open_chunks = [chunk for chunk in open_chunks if chunk.end > start]
        while following is not None and following.start <= start:
            open_chunks.append(following)
            following = next(waiting, None)
        number = f"<sup>{starts[start].index}</sup>" if start in starts else ""
        parts.append(number + _span(text[start:end], open_chunks))
    return "".join(parts)


def _span(text: str, chunks: Sequence[Chunk]) -> str:
    if not chunks:
        return escape(text)
    last = chunks[-1]
    overlap = " o" if len(chunks) > 1 else ""
    return f'<span class="c c{last.index % _COLOURS}{overlap}" title="{escape(_label(chunks))}">{escape(text)}</span>'


def _label(chunks: Iterable[Chunk]) -> str:
    return "; ".join(
        f"chunk {chunk.index}: {chunk.start} to {chunk.end}, {counted(chunk.token_count, 'token')}"
        + (f", page {chunk.page}" if chunk.page is not None else "")
        + (f", {' › '.join(chunk.heading_path)}" if chunk.heading_path else "")
        for chunk in chunks
    )
