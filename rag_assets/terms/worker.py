"""The process that prepares texts for another one: see `rag_assets.terms.beside`.

It reads lists of texts, each preceded by its length, and answers each with the list of their terms, until there are no
more.
"""

from __future__ import annotations

import marshal
import signal
import sys
from struct import Struct
from typing import IO

from rag_assets.terms import TermsVersion, prepare

_LENGTH = Struct("!Q")


def send(stream: IO[bytes], texts: list[str]) -> None:
    """Write one list."""
    data = marshal.dumps(texts)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> list[str] | None:
    """Read one list; None where the stream has ended.

    Raises:
        EOFError: it ended in the middle of one.
    """
    head = stream.read(_LENGTH.size)
    if not head:
        return None
    if len(head) < _LENGTH.size:
        raise EOFError("a length was cut off")
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError("a list was cut off")
    texts: list[str] = marshal.loads(data)  # nosec B302: of the process that started this one, or of this one
    return texts


def main(version: TermsVersion) -> None:
    """Serve whoever started this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, whose owner stops us by closing our input
    while (texts := receive(sys.stdin.buffer)) is not None:
        send(sys.stdout.buffer, [prepare(text, version) for text in texts])
