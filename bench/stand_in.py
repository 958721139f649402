"""A stand-in for a chat server: OpenAI's `/chat/completions` over real HTTP, where a rule judges instead of a model.

What it costs is what the product costs around a model. What its judgements are worth says nothing of a model's.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_CHARS_PER_TOKEN = 4
_WORD = re.compile(r"\w{4,}")

# What a rule makes of the question, the queries so far and the passages: the queries of a further round, none where the
# passages are sufficient.
Judge = Callable[[str, Sequence[str], Sequence[str]], list[str]]


def wants_every_word(question: str, queries: Sequence[str], passages: Sequence[str]) -> list[str]:
    """Content when each word of the question, of four letters or more, is in a passage; else asks for those that are
    not."""
    there = {word.casefold() for passage in passages for word in _WORD.findall(passage)}
    missing = [word for word in _WORD.findall(question) if word.casefold() not in there]
    return [" ".join(missing)] if missing else []


def is_never_content(question: str, queries: Sequence[str], passages: Sequence[str]) -> list[str]:
    """Asks again in each round, together with how the next of the passages begins."""
    return [f"{question} {passages[len(queries) % len(passages)][:80]}"] if passages else []


@contextmanager
def chat_server(judge: Judge) -> Iterator[str]:
    """Run a server on a free port; yields its base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body are two writes

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            said = json.dumps(_said(json.loads(body), judge))
            data = json.dumps(_completion(said, len(body))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """A bench prints its table and nothing else."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _said(request: dict[str, Any], judge: Judge) -> dict[str, Any]:
    properties = request["response_format"]["json_schema"]["schema"]["properties"]
    if "sufficient" not in properties:  # it is asked for a better query, and has none
        return {"standalone": "", "readings": [], "parts": []}
    question, queries, passages = _blocks(request["messages"][-1]["content"])
    wanted = judge(question[0], queries, passages)
    return {"sufficient": not wanted, "missing": "; ".join(wanted), "queries": wanted}


def _completion(text: str, read: int) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"choices": [choice], "usage": {"total_tokens": (read + len(text)) // _CHARS_PER_TOKEN}}


def _blocks(prompt: str) -> list[list[str]]:
    """The texts of each data block of a prompt."""
    blocks: list[list[str]] = []
    inside = False
    for line in prompt.splitlines():
        if line == "<<<DATA":
            blocks.append([])
        elif inside and line != "DATA>>>":
            blocks[-1].append(json.loads(line))
        inside = (inside or line == "<<<DATA") and line != "DATA>>>"
    return blocks
