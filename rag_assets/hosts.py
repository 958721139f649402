"""Who reaches a server that listens on an address."""

from __future__ import annotations

import socket
from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on `host`."""
    try:
        found = {str(address[4][0]) for address in socket.getaddrinfo(host or None, None, flags=socket.AI_PASSIVE)}
    except OSError:
        return False
    return all(ip_address(address.partition("%")[0]).is_loopback for address in found)
