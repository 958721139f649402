"""What is told of a search after it: its answer's citations, and feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from rag_assets.observing.searches import log_line, whose
from rag_assets.observing.switches import switches
from rag_assets.observing.telemetry import instruments


def tell_answer(tenant: str, bot: str, query_id: UUID, cited: Sequence[UUID]) -> None:
    """To metrics and the log: an answer, and the chunks that it cites."""
    tools = instruments()
    if tools is not None:
        labels = whose(tenant, bot, switches())
        tools.answers.add(1, {**labels, "rag.cited": bool(cited)})
        tools.citations.add(len(cited), labels)
    _log("answer", tenant, bot, query_id, {"citations": [str(one) for one in cited]})


def tell_feedback(tenant: str, bot: str, query_id: UUID, chunk_id: UUID, helpful: bool | None) -> None:
    """To metrics and the log: what somebody says of a result."""
    tools = instruments()
    if tools is not None and helpful is not None:
        tools.feedback.add(1, {**whose(tenant, bot, switches()), "rag.helpful": helpful})
    _log("feedback", tenant, bot, query_id, {"chunk_id": str(chunk_id), "helpful": helpful})


def _log(event: str, tenant: str, bot: str, query_id: UUID, more: Mapping[str, Any]) -> None:
    if switches().search_log:
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        log_line(
            {"event": event, "time": time, "query_id": str(query_id), "tenant": tenant, "bot": bot, **more},
        )
