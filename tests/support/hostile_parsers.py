"""Parsers that do what no parser should, for tests of the processes that contain them."""

from __future__ import annotations

import ctypes
import os
import pickle
import socket
import sys
import time
import warnings

from rag_assets.documents.model import Document, Record


def parse(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Do what the data says, and otherwise return it as text."""
    words = data.decode().split()
    command, argument = words[0], words[1] if len(words) > 1 else ""
    match command:
        case "crash":
            ctypes.string_at(0)
        case "exit":
            os._exit(int(argument))
        case "sys.exit":
            sys.exit(3)
        case "sleep":
            time.sleep(float(argument))
        case "hold-the-lock":  # of the interpreter: no other thread of the process runs meanwhile
            ctypes.PyDLL(None).sleep(int(argument))
        case "eat":
            held = [bytes(2**20) for _ in range(int(argument))]
            return [_says(name, str(len(held)))]
        case "environment":
            return [_says(name, "\n".join(sorted(os.environ)))]
        case "print":
            os.write(1, b"noise\n" * 1000)
            os.write(2, b"noise\n" * 1000)
            warnings.warn("noise", stacklevel=1)
        case "pid":
            return [_says(name, f"{os.getpid()} {os.getsid(0)}")]
        case "files":
            return [_says(name, " ".join(_open_files()))]
        case "forge":
            _socket().sendall(pickle.dumps(_Forged()))
            time.sleep(60)
        case "half":
            _socket().sendall(pickle.dumps([_says(name, "half an answer")])[:-3])
            time.sleep(60)
    return [_says(name, data.decode())]


class _Forged:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch forged-by-a-parser",)


def _says(name: str, text: str) -> Record:
    return Record("", name, "ready", Document(text))


def _socket() -> socket.socket:
    """The socket over which this process answers: a parser that has taken it over can find it."""
    return socket.socket(fileno=os.dup(next(int(fd) for fd, kind in _descriptors() if kind.startswith("socket"))))


def _open_files() -> list[str]:
    return [kind for fd, kind in _descriptors() if int(fd) > 2]


def _descriptors() -> list[tuple[str, str]]:
    found = []
    for fd in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            found.append((fd, os.readlink(f"/proc/self/fd/{fd}")))
        except FileNotFoundError:  # the one that listed the folder
            continue
    return found
