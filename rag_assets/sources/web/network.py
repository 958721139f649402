"""Connections to strangers: to public addresses only, and each wait within one deadline."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import httpcore
import httpx

from rag_assets.errors import RootUnreadable
from rag_assets.settings import load_settings
from rag_assets.sources.deadline import Deadline, within

ALLOW_PRIVATE = "RAG_ALLOW_PRIVATE_URLS"
STEP_SECONDS = 20.0  # without a byte
PORTS = {"http": 80, "https": 443}

# The registries of IANA for special purposes, and what clouds put elsewhere. Not `ip.is_global`, whose answers differ
# from one version of Python to the next.
_AZURE = "168.63.129.16/32"  # its own services
_V4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", _AZURE),
    )
)
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
# Within it: tunnels of Teredo and other protocols, documentation, 6to4.
_V6 = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # how networks without IPv4 reach every public IPv4 address
_ISATAP = (0x00005EFE, 0x02005EFE)


def is_public(address: str) -> bool:
    """Whether an IP address is one of the internet, whatever IPv4 address a gateway may read out of it."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.scope_id is not None:
            return False
        embedded = ip.ipv4_mapped or (ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None)
        if embedded is not None:
            ip = embedded
        elif ip not in _GLOBAL_V6 or any(ip in network for network in _V6):
            return False
        elif (int(ip) >> 32) & 0xFFFFFFFF in _ISATAP:
            ip = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        else:
            return True
    return not any(ip in network for network in _V4)


def addresses_of(host: str, port: int, deadline: Deadline) -> list[str]:
    """The IP addresses of a host, all of them public unless RAG_ALLOW_PRIVATE_URLS=1.

    Raises:
        RootUnreadable: one is not public, or the name is unknown, or not resolved in time.
    """
    try:
        found = within(deadline, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError) as error:
        raise RootUnreadable(f"{deadline.what}: the host name {host!r} could not be resolved: {error}") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not load_settings().allow_private_urls:
        for address in addresses:
            if not is_public(address):
                raise RootUnreadable(
                    f"{deadline.what}: {address} is not a public address; "
                    f"{ALLOW_PRIVATE}=1 allows pages of the own network"
                )
    return addresses


class Transport(httpx.HTTPTransport):
    """Sends requests over connections that end at the deadline, each to an address that was looked at."""

    def __init__(self, deadline: Deadline) -> None:
        # No proxy from the environment: it would resolve the name again, and perhaps to another address.
        super().__init__(verify=_certificates(), trust_env=False)
        self._network = _Network(deadline)
        self._pool = httpcore.ConnectionPool(ssl_context=_certificates(), network_backend=self._network)

    def look_at(self, url: httpx.URL) -> None:
        """Resolve the host of an address, and refuse it like `addresses_of`."""
        self._network.resolve(url.raw_host.decode("ascii"), url.port or PORTS[url.scheme])


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    # Reading the certificates takes longer than a request.
    return httpx.create_ssl_context(trust_env=False)


class _Network(httpcore.NetworkBackend):
    """Resolves each name once, and connects to what it has looked at: a second answer could be another one."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._sockets = httpcore.SyncBackend()
        self._resolved: dict[tuple[str, int], list[str]] = {}

    def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of a host, the same each time."""
        if (host, port) not in self._resolved:
            self._resolved[host, port] = addresses_of(host, port, self._deadline)
        return self._resolved[host, port]

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        refused: Exception | None = None
        for address in self.resolve(host, port):
            try:
                stream = self._sockets.connect_tcp(address, port, _wait(self._deadline), local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                refused = error
            else:
                return _Stream(stream, self._deadline)
        raise refused or httpcore.ConnectError(f"{host} has no address")


class _Stream(httpcore.NetworkStream):
    """A connection on which no wait is longer than what is left: a byte now and then does not prolong it."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _wait(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _wait(self._deadline))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, _wait(self._deadline)), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _wait(deadline: Deadline) -> float:
    return min(STEP_SECONDS, deadline.left())
