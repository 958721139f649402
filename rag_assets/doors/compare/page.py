"""The page of `rag compare --serve`: a form, two answers beside each other, and the labelled queries.

It is made on the server and has no script. Whoever reaches it reads what the bot knows, so it listens on this machine
alone, and `Guard` keeps pages of other sites out.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from threading import Lock
from typing import Any

import jinja2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from evals.metrics import HEADLINE
from rag_assets.doors.compare.differences import Placed, placed
from rag_assets.doors.compare.labelled import LabelledComparison, compare_labelled
from rag_assets.doors.compare.sides import FORM, Asker, Side, SideAnswer, ask_side, parse_side
from rag_assets.doors.listening import answer_until_told
from rag_assets.errors import RagError
from rag_assets.launch.guard import Guard, Rules
from rag_assets.retrieval import RetrievalResult, Retriever
from rag_assets.retrieval.files import RetrieverFile
from rag_assets.store.database import Database
from rag_assets.store.profiles import get_spec

HOST = "127.0.0.1"
_NAMES = frozenset({"127.0.0.1", "localhost"})
_CLOSE_S = 3
_SHOWN_QUERIES = 500
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"


@dataclass
class ComparePage:
    """What the page needs: who asks, which sides it offers, and the retriever files that may be named on it."""

    database: Database
    who: Asker
    offered: Sequence[str]
    files: Mapping[str, RetrieverFile]
    _made: dict[str, Retriever] = field(default_factory=dict)
    _measured: dict[tuple[str, str], LabelledComparison] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def app(self) -> Guard:
        """The ASGI application."""
        routes = [Route("/", self.question), Route("/labelled", self.labelled)]
        return Guard(Starlette(routes=routes), Rules(_NAMES))

    def question(self, request: Request) -> HTMLResponse:
        """The form, and both answers where a question was put."""
        asked = request.query_params.get("q", "").strip()
        words = self._words(request)
        shown: dict[str, Any] = {"asked": asked, "words": words}
        if asked:
            try:
                answers = [
                    ask_side(self.database, side, made, self.who, asked)
                    for side, made in zip(*self._sides(words), strict=True)
                ]
            except RagError as error:
                return self._page("question.html", 400, **shown, error=str(error))
            shown["columns"] = [_column(*answers), _column(*answers[::-1])]
        return self._page("question.html", **shown)

    def labelled(self, request: Request) -> HTMLResponse:
        """All labelled queries, the ones that differ most first; measured once, until it is asked for `again`."""
        words = self._words(request)
        try:
            with self._lock:  # one at a time: the second who asks gets what the first has measured
                if words not in self._measured or "again" in request.query_params:
                    sides, made = self._sides(words)
                    self._measured[words] = compare_labelled(self.database, sides, made, self.who.tenant, self.who.bot)
        except RagError as error:
            return self._page("labelled.html", 400, words=words, asked="", error=str(error))
        found = self._measured[words]
        shown: dict[str, Any] = {"found": found, "queries": found.queries[:_SHOWN_QUERIES]}
        return self._page("labelled.html", words=words, asked="", metrics=HEADLINE, p_text=p_text, **shown)

    def _words(self, request: Request) -> tuple[str, str]:
        a, b = (request.query_params.get(name, "").strip() for name in ("a", "b"))
        return a or self.offered[0], b or self.offered[1]

    def _sides(self, words: tuple[str, str]) -> tuple[list[Side], list[Retriever]]:
        sides = [parse_side(word, self.files) for word in words]
        with self.database.work(self.who.tenant) as connection:
            for profile in {one.profile for one in sides if one.profile}:
                get_spec(connection, profile)  # one that is misspelt is told as on the command line
        return sides, [self._made.setdefault(one.word, one.retriever(self.database)) for one in sides]

    def _page(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        text = _TEMPLATES.get_template(template).render(who=self.who, offered=self.offered, form=FORM, **values)
        return HTMLResponse(text, status, {"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"})


def _column(answer: SideAnswer, other: SideAnswer) -> dict[str, Any]:
    """What the template shows of one side."""
    found = answer.found
    return {
        "answer": answer,
        "rows": [_row(one, answer) for one in placed(found.results, other.found.results)],
        "timings": ", ".join(f"{stage} {ms:.0f} ms" for stage, ms in found.timings_ms.items()),
        "trace": [{name: value for name, value in step.items() if value is not None} for step in found.trace],
    }


def _row(one: Placed, answer: SideAnswer) -> dict[str, Any]:
    result = one.result
    return {
        "place": one.place,
        "result": result,
        "class": one.change.replace(" ", "-"),
        "change": change_text(one),
        "facts": [*score_texts(result, answer.places(result.chunk_id)), *_where(result)],
        "path": [f"{step['subject']} {step['predicate']} {step['object']}" for step in result.path],
    }


def _where(result: RetrievalResult) -> list[str]:
    """Heading and page, where they are known."""
    heading, page = (result.citation.get(name) for name in ("heading", "page"))
    return [*([str(heading)] if heading else []), *([f"page {page}"] if page is not None else [])]


def change_text(one: Placed) -> str:
    """`up 2, there 5th place`, say, in few characters."""
    match one.change:
        case "up" | "down":
            return f"{one.change} {abs(one.place - (one.other or 0))} (there {one.other})"
        case "other passage":
            return f"another passage of it there at {one.other}"
    return str(one.change)


def score_texts(result: RetrievalResult, places: Mapping[str, int]) -> list[str]:
    """What each list and the reranker made of it: `meaning 0.71, 3rd of its list`, say."""
    scores = {"meaning": result.dense_score, "words": result.lexical_score, "reranked": result.rerank_score}
    ranks = {"meaning": places.get("dense"), "words": places.get("lexical")}
    parts = []
    for name, score in scores.items():
        rank = ranks.get(name)
        if score is not None or rank is not None:
            parts.append(name + (f" {score:.3f}" if score is not None else "") + (f" (no. {rank})" if rank else ""))
    return parts + ([f"index {result.index}"] if result.index else [])


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FunctionLoader(
        lambda name: (files("rag_assets.doors.compare") / "templates" / name).read_text(encoding="utf-8")
    ),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def serve(page: ComparePage, listens: socket.socket) -> signal.Signals | None:
    """Show the page until the process is told to end; returns by which signal."""
    config = uvicorn.Config(
        page.app(), log_level="warning", server_header=False, timeout_graceful_shutdown=_CLOSE_S, lifespan="off"
    )
    return answer_until_told(config, listens)


def p_text(p_value: float) -> str:
    """A p-value in few characters."""
    return f"{p_value:.3f}" if p_value >= 0.001 else "< 0.001"
