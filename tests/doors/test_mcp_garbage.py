"""`rag mcp` on stdin: what is no message, or asks for what is not there, ends nothing."""

from __future__ import annotations

import json
import subprocess
import threading
from typing import Any

from rag_assets.store.database import Database
from tests.support.agent_world import EVIL
from tests.support.imports import HOUSE
from tests.support.mcp_world import RAG, environment

SUPPORT = ("--tenant", "alpha", "--bot", "support")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


def test_lines_that_are_no_messages_end_nothing_and_the_next_message_is_answered(world: Database) -> None:
    garbage = [b"\xff\xfe\x00", b"[" * 100_000, b"{}", b"null", b"x" * (8 * 2**20), b'{"jsonrpc":"2.0","id":7}']
    messages = [INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    call: dict[str, Any] = {"jsonrpc": "2.0", "method": "tools/call"}
    wrong: list[Any] = [{}, {"name": "search"}, {"name": "search", "arguments": {"query": ["SELECT"]}},
                        {"name": "index_document", "arguments": {"id": "x", "text": EVIL}}]  # fmt: skip
    calls = [{**call, "id": 10 + number, "params": params} for number, params in enumerate(wrong)]
    last = {**call, "id": 99, "params": {"name": "search", "arguments": {"query": "recovery code of valve 3"}}}
    lines = [json.dumps(one).encode() for one in (*messages, *calls)] + garbage + [json.dumps(last).encode()]
    with subprocess.Popen(
        [*RAG, "mcp", *SUPPORT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=HOUSE,
        env=environment(world.url),
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        sender = threading.Thread(target=lambda: _send(process.stdin, lines), daemon=True)
        sender.start()
        answers = {}
        for line in process.stdout:
            answer = json.loads(line)
            answers[answer.get("id")] = answer
            if 99 in answers:
                break
        sender.join(30)
        process.stdin.close()
        assert process.wait(30) == 0
    assert "AAA-111" in json.dumps(answers[99])
    for one in calls:
        answer = answers[one["id"]]
        assert "error" in answer or answer["result"]["isError"], answer


def _send(stdin: Any, lines: list[bytes]) -> None:
    stdin.write(b"".join(line + b"\n" for line in lines))
    stdin.flush()
