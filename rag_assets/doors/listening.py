"""The socket that a door listens on, made before anything is started, so that a port that is taken is told first; and
a server behind it, until it is told to end."""

from __future__ import annotations

import errno
import signal
import socket

import uvicorn

from rag_assets.errors import UsageError

_BACKLOG = 512  # connections that wait to be taken
_STOPPING = (signal.SIGINT, signal.SIGTERM)
_NOT_OF_PORT = (errno.EADDRNOTAVAIL, errno.EINVAL)


def listening(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """A socket that listens there; of port 0, on a free one. `option` is what names the port on the command line.

    Raises:
        UsageError: the port is taken or may not be listened on, or the host is none of this machine's addresses.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise _refused(host, port, error, option="--host") from error
    bound = socket.socket(family, kind)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise _refused(host, port, error, "--host" if error.errno in _NOT_OF_PORT else option) from error
    return bound


def answer_until_told(config: uvicorn.Config, bound: socket.socket) -> signal.Signals | None:
    """Answer until SIGTERM or Ctrl-C, and return which it was. Both end what is being answered first, and a second
    Ctrl-C does not."""
    heard: list[int] = []

    # The server hands on the signals that it got when it has ended; whoever told it to stop got what they wanted.
    before = {number: signal.signal(number, lambda told, _: heard.append(told)) for number in _STOPPING}
    try:
        uvicorn.Server(config).run(sockets=[bound])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return signal.Signals(heard[0]) if heard else None


def _refused(host: str, port: int, error: Exception, option: str) -> UsageError:
    why = getattr(error, "strerror", None) or error
    way_out = "--host takes an address of this machine" if option == "--host" else f"choose another {option}"
    return UsageError(f"cannot serve on {host}:{port}: {why}; {way_out}")
