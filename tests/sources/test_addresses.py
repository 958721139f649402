"""Which roots are refused at once, and which addresses are never connected to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rag_assets.errors import RootUnreadable, UsageError
from rag_assets.sources.deadline import Deadline
from rag_assets.sources.roots import resolve_roots, root_problem
from rag_assets.sources.scan import scan_root
from rag_assets.sources.web import network
from rag_assets.sources.web.fetch import fetch
from rag_assets.sources.web.network import is_public

NONSENSE = [
    *("ftp://host/x", "webhdfs://127.0.0.1/x", "memory://x", "local:///etc", "github://o:r@main/", "sftp://host/x"),
    *("zip://x::http://127.0.0.1/a.zip", "simplecache::http://127.0.0.1/a.md", "filecache::s3://bucket/x"),
    *("s3://bucket/a::http://127.0.0.1/x", "gs://bucket::file:///etc", "dir::file:///etc", "data://text", "smb://h/x"),
    *("http://", "s3:///", "jar://x", "reference://x", "HTTPX://x", "cached::https://example.com/"),
]


@pytest.mark.parametrize("root", NONSENSE)
def test_a_root_that_nothing_here_reads_is_refused_and_never_fatal(root: str) -> None:
    assert root_problem(root)
    with pytest.raises(UsageError):
        resolve_roots([root])
    with pytest.raises(RootUnreadable):  # one that was remembered before: the others go on
        scan_root(root)


def test_a_refusal_says_what_is_read() -> None:
    assert "s3://" in str(root_problem("ftp://host/x"))


@pytest.mark.parametrize(
    "root", ["https://example.com/a", "s3://bucket/a", "gs://b/x", "az://c/x", "abfs://c@account/x"]
)
def test_what_is_read_is_no_problem(root: str) -> None:
    assert root_problem(root) is None
    assert resolve_roots([root]) == [root]


INSIDE = [
    *("0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254"),
    *("169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1"),
    *("192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1"),
    *("239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16"),
    *("::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:7f00:1"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "64:ff9b:1::808:808", "100::1", "2001::1"),
    *("2001:0:7f00:1::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::1", "2002:a00:1::1"),
    *("3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%1", "fec0::1", "febf::1", "ff02::1"),
    *("2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:127.0.0.1"),
]


@pytest.mark.parametrize("address", INSIDE)
def test_no_address_of_a_network_of_ones_own_counts_as_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1", "198.17.0.1"),
        *("168.63.129.15", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2620:fe::fe", "64:ff9b::808:808"),
        *("::ffff:8.8.8.8", "2001:4860:4860::8888", "2003::1"),
    ],
)
def test_addresses_of_the_internet_do(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("host", ["017700000001", "0x7f000001", "127.1", "[::ffff:7f00:1]", "[::7f00:1]"])
def test_an_address_written_in_another_way_is_the_same_address(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_ALLOW_PRIVATE_URLS", raising=False)
    with pytest.raises(RootUnreadable, match="not a public address"):
        fetch(f"http://{host}:9/")


def test_a_name_that_resolves_to_another_address_the_second_time_is_not_asked_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The address that was looked at is the one that is connected to."""
    monkeypatch.delenv("RAG_ALLOW_PRIVATE_URLS", raising=False)
    monkeypatch.setenv("RAG_IGNORE_ROBOTS", "1")
    answers = iter([("93.184.216.34",), ("127.0.0.1",)])
    connected: list[str] = []

    def resolve(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 80)) for one in next(answers)]

    class Sockets:
        def connect_tcp(self, host: str, *_: Any) -> Any:
            connected.append(host)
            raise network.httpcore.ConnectError("refused")

    monkeypatch.setattr(network.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(network.httpcore, "SyncBackend", Sockets)
    with pytest.raises(RootUnreadable):
        fetch("http://rebinding.example/")
    assert connected == ["93.184.216.34"]


def test_one_private_address_among_public_ones_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_ALLOW_PRIVATE_URLS", raising=False)
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 80)) for one in ("1.1.1.1", "10.0.0.1")]
    monkeypatch.setattr(network.socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(RootUnreadable, match=r"10\.0\.0\.1 is not a public address"):
        network.addresses_of("h", 80, Deadline("http://h/", 5, "RAG_FETCH_SECONDS", time.monotonic() + 5))


@contextmanager
def _dripping(first: bytes, drop: bytes) -> Iterator[str]:
    """A server that sends `first`, and then `drop` again and again for as long as anybody listens."""
    ended = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while not ended.is_set():
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.sendall(first)
                    while not ended.wait(0.05):
                        connection.sendall(drop)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    finally:
        ended.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)


@pytest.mark.parametrize(
    ("first", "drop"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x"),
    ],
    ids=["status", "one header", "headers", "body", "chunk"],
)
@pytest.mark.parametrize("path", ["/page", "/sitemap.xml"])
def test_a_server_that_drips_is_left_at_the_deadline(
    first: bytes, drop: bytes, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    monkeypatch.setenv("RAG_IGNORE_ROBOTS", "1")
    monkeypatch.setenv("RAG_FETCH_SECONDS", "0.5")
    with _dripping(first, drop) as url:
        began = time.monotonic()
        with pytest.raises(RootUnreadable):
            fetch(url + path)
        assert time.monotonic() - began < 15


def test_robots_that_drip_are_left_at_the_same_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    monkeypatch.setenv("RAG_FETCH_SECONDS", "0.5")
    with _dripping(b"HTTP/1.1 200 OK\r\nX: ", b"x") as url:
        began = time.monotonic()
        with pytest.raises(RootUnreadable, match=r"robots\.txt: not complete after"):
            fetch(f"{url}/page")
        assert time.monotonic() - began < 15


def test_a_name_that_is_not_resolved_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    hung = threading.Event()
    monkeypatch.setattr(network.socket, "getaddrinfo", lambda *_, **__: hung.wait(30))
    monkeypatch.setenv("RAG_FETCH_SECONDS", "0.3")
    began = time.monotonic()
    with pytest.raises(RootUnreadable, match="RAG_FETCH_SECONDS"):
        fetch("http://slow.example/")
    assert time.monotonic() - began < 15
    hung.set()


def test_an_error_names_the_address_once_and_no_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    monkeypatch.setenv("RAG_IGNORE_ROBOTS", "1")
    with pytest.raises(RootUnreadable) as caught:
        fetch("http://127.0.0.1:1/a")
    assert str(caught.value).count("http://127.0.0.1:1/a") == 1
    assert "Error" not in str(caught.value)
