"""One web page over http or https: politely, within limits, and without reaching into the network this runs in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from rag_assets.errors import RootUnreadable
from rag_assets.sources.deadline import Deadline
from rag_assets.sources.secrets import shown
from rag_assets.sources.web.http import ALLOW_PRIVATE, USER_AGENT, Visit, answer, read_body
from rag_assets.sources.web.robots import check_robots

__all__ = ["ALLOW_PRIVATE", "MAX_PAGE_BYTES", "FetchedPage", "Validators", "fetch", "probe"]

MAX_PAGE_BYTES = 20 * 1024 * 1024
_WITH_VALUE = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


@dataclass(frozen=True)
class Validators:
    """What a server said about a version of a page, to be sent back with the next request for it."""

    etag: str | None = None
    last_modified: str | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers of a conditional request."""
        sent = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in sent.items() if value}


@dataclass(frozen=True)
class FetchedPage:
    """A page as it was sent; `url` is the address after redirects."""

    url: str
    content: bytes
    content_type: str | None
    validators: Validators = Validators()
    noindex: bool = False  # the server asks robots not to index it


@dataclass(frozen=True)
class Probe:
    """What a server says about a page without sending it; `unchanged`: it is the version that was named."""

    unchanged: bool
    content_type: str | None = None
    size: int = -1  # bytes, -1 where the server does not tell
    last_modified: str | None = None
    noindex: bool = False  # the server asks robots not to index it


def fetch(
    url: str, accept: Callable[[str | None], None] = lambda content_type: None, until: Deadline | None = None
) -> FetchedPage:
    """Return a page of at most 20 MB, after at most 5 redirects, and not later than `until`.

    Each address on the way must be public, unless RAG_ALLOW_PRIVATE_URLS=1, and open to us by its site's
    robots.txt, unless RAG_IGNORE_ROBOTS=1. `accept` sees the Content-Type first and may raise.

    Raises:
        RootUnreadable: a refused address, no answer, too many redirects, or an error status.
        ParseError: the page is larger than 20 MB.
    """
    with _page(url, Validators(), until) as (visit, final, response):
        content_type = response.headers.get("content-type")
        accept(content_type)
        body = read_body(visit, response, MAX_PAGE_BYTES)
        return FetchedPage(final, body, content_type, _validators(response), _noindex(response))


def probe(url: str, known: Validators, until: Deadline | None = None) -> Probe:
    """Ask whether a page is still the version that `known` describes; raises RootUnreadable like `fetch`."""
    with _page(url, known, until) as (_, _, response):
        length = response.headers.get("content-length", "")
        return Probe(
            unchanged=response.status_code == httpx.codes.NOT_MODIFIED,
            content_type=response.headers.get("content-type"),
            size=int(length) if length.isdecimal() else -1,
            last_modified=response.headers.get("last-modified"),
            noindex=_noindex(response),
        )


@contextmanager
def _page(url: str, known: Validators, until: Deadline | None) -> Iterator[tuple[Visit, str, httpx.Response]]:
    conditions = known.headers()
    expected = (httpx.codes.OK, httpx.codes.NOT_MODIFIED) if conditions else (httpx.codes.OK,)
    visit = Visit(url, conditions, check_robots, until)
    with answer(visit) as (final, response):
        if response.status_code not in expected:
            raise RootUnreadable(f"{shown(url)}: status {response.status_code} {response.reason_phrase}")
        yield visit, final, response


def _validators(response: httpx.Response) -> Validators:
    return Validators(response.headers.get("etag"), response.headers.get("last-modified"))


def _noindex(response: httpx.Response) -> bool:
    """Whether a header X-Robots-Tag says noindex, or none, to everybody or to this program."""
    for value in response.headers.get_list("x-robots-tag"):
        agent, colon, rest = value.partition(":")
        # Of directives, only dates and numbers have a colon: `unavailable_after: 1 Jan`.
        if colon and "," not in agent and agent.strip().lower() not in _WITH_VALUE:
            if agent.strip().lower() != USER_AGENT:
                continue
            value = rest
        if {"noindex", "none"} & {word.strip().lower() for word in value.split(",")}:
            return True
    return False
