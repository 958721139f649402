"""A connection of a client that is not known yet: what it may send, and how long it may take, before anybody looks."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rag_assets.doors.http.limits import HEAD_SECONDS, MAX_CONNECTIONS, MAX_HEAD_BYTES


class BoundedConnection(HttpToolsProtocol):
    """A connection that has to say what it wants within some time and some bytes; of too many, the newest goes."""

    _deadline: asyncio.TimerHandle | None = None
    _is_head = True
    _spare_bytes = 0  # of the message that comes: those that are no body, less as many as its body has

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.access_log = False  # it would write paths and queries as they came

    def connection_made(self, transport: Any) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.close()
        else:
            self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._spare_bytes += len(data)
        super().data_received(data)
        if self._spare_bytes > MAX_HEAD_BYTES:  # of what stands around a body the edge sees nothing
            self.transport.close()
        if self._is_answering():
            self._stop_waiting()
        elif self._deadline is None:
            self._wait_for_head()

    def on_message_begin(self) -> None:
        """See `HttpToolsProtocol`."""
        self._is_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """See `HttpToolsProtocol`. What follows a body is no header: no proxy looks for one there."""
        if self._is_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """See `HttpToolsProtocol`."""
        self._is_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """See `HttpToolsProtocol`."""
        if self._is_answering():
            self._spare_bytes -= 2 * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See `HttpToolsProtocol`."""
        self._spare_bytes = 0
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
