"""robots.txt: what a site lets machines read (RFC 9309)."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

import httpx

from rag_assets.errors import ParseError, RootUnreadable
from rag_assets.settings import load_settings
from rag_assets.sources.deadline import Deadline
from rag_assets.sources.web.http import USER_AGENT, Visit, answer, read_body

MAX_ROBOTS_BYTES = 512 * 1024
_CACHE_SECONDS = 3600.0
_CACHE_SECONDS_FAILED = 300.0
_CACHED_SITES = 1000
_ANY = "*"


@dataclass(frozen=True)
class Rule:
    """A path pattern that is allowed or not; the longest pattern that matches decides."""

    pattern: str
    allowed: bool


@dataclass(frozen=True)
class Robots:
    """The rules of a site for this program; `failure` says why they are not known, and then nothing is allowed."""

    rules: tuple[Rule, ...] = ()
    failure: str | None = None

    def allows(self, path: str) -> bool:
        """Tell whether a path with its query may be read; between equally long patterns, allowing wins."""
        path = _encoded(path)
        decisive = [(len(rule.pattern), rule.allowed) for rule in self.rules if _matches(rule.pattern, path)]
        return self.failure is None and (not decisive or max(decisive)[1])


_cache: OrderedDict[str, tuple[float, Robots]] = OrderedDict()


def check_robots(url: httpx.URL, name: str, deadline: Deadline) -> None:
    """Refuse an address that its site's robots.txt closes to this program. RAG_IGNORE_ROBOTS=1 switches this off.

    `name` is how the address may be printed.

    Raises:
        RootUnreadable: closed, or its robots.txt could not be read for a reason that is the server's.
    """
    if load_settings().ignore_robots:
        return
    robots = _robots_of(url, deadline)
    if robots.failure:
        raise RootUnreadable(f"{name}: what its site allows is not known: {robots.failure}")
    if not robots.allows(url.raw_path.decode("ascii")):
        raise RootUnreadable(f"{name}: the site's robots.txt does not allow {USER_AGENT} to read it")


def parse_robots(text: str, agent: str = USER_AGENT) -> Robots:
    """Return the rules of all groups that name `agent`, or else of those for everybody."""
    groups: dict[str, list[Rule]] = {}
    names: list[str] = []
    in_rules = False
    for key, value in _lines(text):
        if key == "user-agent":
            names = [*([] if in_rules else names), _product(value)]
            in_rules = False
            groups.setdefault(names[-1], [])
        elif key in ("allow", "disallow"):
            in_rules = True
            if value:
                for name in names:
                    groups[name].append(Rule(_encoded(value), key == "allow"))
    return Robots(tuple(groups.get(agent.lower(), groups.get(_ANY, []))))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.removeprefix("\ufeff").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        if colon:
            yield key.strip().lower(), value.strip()


def _product(value: str) -> str:
    """Return the product token of a User-agent line: `Bot/1.0` names `bot`."""
    match = re.match(r"[\w-]+", value)
    return match.group().lower() if match else value


def _encoded(path: str) -> str:
    return quote(unquote_to_bytes(path.replace("%2F", "%252F").replace("%2f", "%252F")), safe="/*$?&=%+,;:@!'()~")


def _matches(pattern: str, path: str) -> bool:
    """Match like a shell pattern with `*` alone, from the start; `$` at the end anchors. Time: pattern x path."""
    anchored = pattern.endswith("$")
    first, *rest = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    position = len(first)
    for part in rest[:-1] if anchored else rest:
        found = path.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    if not anchored:
        return True
    return path.endswith(rest[-1]) and len(path) - len(rest[-1]) >= position if rest else len(path) == position


def _robots_of(url: httpx.URL, deadline: Deadline) -> Robots:
    site = f"{url.scheme}://{url.netloc.decode('ascii')}"
    now = time.monotonic()
    until, robots = _cache.get(site, (0.0, Robots()))
    if now >= until:
        robots = _fetched(site, deadline)
        _cache[site] = (now + (_CACHE_SECONDS_FAILED if robots.failure else _CACHE_SECONDS), robots)
        _cache.move_to_end(site)
        while len(_cache) > _CACHED_SITES:
            _cache.popitem(last=False)
    return robots


def _fetched(site: str, deadline: Deadline) -> Robots:
    visit = Visit(f"{site}/robots.txt", until=deadline)
    try:
        with answer(visit) as (_, response):
            if response.status_code == httpx.codes.OK:
                return parse_robots(read_body(visit, response, MAX_ROBOTS_BYTES).decode("utf-8", "replace"))
            # No such file, or none for us: nothing is forbidden. A server in trouble has not said so.
            busy = response.status_code == httpx.codes.TOO_MANY_REQUESTS or response.is_server_error
            return Robots(failure=f"{visit.url}: status {response.status_code}" if busy else None)
    except (RootUnreadable, ParseError) as error:
        return Robots(failure=str(error))
