from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.errors import RootUnreadable
from rag_assets.sources.web import robots as web_robots
from rag_assets.sources.web.fetch import fetch
from rag_assets.sources.web.robots import parse_robots
from tests.support.web_site import Page, Site, running_site


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    with running_site() as running:
        running.pages |= {"/open": Page(b"open"), "/closed/page": Page(b"closed")}
        yield running


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("", "/", True),
        ("Disallow:", "/", True),
        ("Disallow: /", "/a", False),
        ("Disallow: /a", "/abc", False),
        ("Disallow: /a/", "/a", True),
        ("Disallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("Allow: /a/b\nDisallow: /a", "/a/c", False),
        ("Disallow: /a\nAllow: /a", "/a", True),
        ("Disallow: /*.pdf$", "/x/y.pdf", False),
        ("Disallow: /*.pdf$", "/x/y.pdf?z", True),
        ("Disallow: /a$", "/a", False),
        ("Disallow: /a$", "/ab", True),
        ("Disallow: /*a*b$", "/xaxxb", False),
        ("Disallow: /*ab*b$", "/xab", True),
        ("Disallow: /*?print=", "/x?y=1&print=1", True),
        ("Disallow: /*?*print=", "/x?y=1&print=1", False),
        ("Disallow: /caf%C3%A9", "/caf%c3%a9", False),
        ("Disallow: /café", "/caf%C3%A9", False),
        ("Disallow: /a%2Fb", "/a/b", True),
        ("disallow : /a # why", "/a", False),
    ],
)
def test_the_longest_pattern_that_matches_decides(rules: str, path: str, allowed: bool) -> None:
    assert parse_robots(f"User-agent: *\n{rules}\n").allows(path) is allowed


def test_rules_for_this_program_replace_those_for_everybody() -> None:
    everybody = "\ufeffUser-agent: *\nDisallow: /\n"
    text = everybody + "\nUser-agent: other\nUser-agent: RAG-Assets/2.0\nCrawl-delay: 1\nDisallow: /x\n"
    assert parse_robots(text).allows("/y")
    assert not parse_robots(text).allows("/x")
    assert not parse_robots(text, "third").allows("/y")
    more = text + "\nUser-agent: rag-assets\nDisallow: /z\n"
    assert not parse_robots(more).allows("/x")
    assert not parse_robots(more).allows("/z")


@given(st.text(), st.text(alphabet="/a*$%?é", max_size=30), st.text(alphabet="/a*$%?", max_size=30))
def test_no_text_makes_it_fail(noise: str, pattern: str, path: str) -> None:
    assert parse_robots(f"User-agent: *\nDisallow: {pattern}\n{noise}").allows("/" + path) in (True, False)


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    robots = parse_robots("User-agent: *\nDisallow: /" + "*a" * 500 + "b$\n")
    started = time.process_time()
    assert robots.allows("/" + "a" * 2000)
    assert time.process_time() - started < 0.1


def test_a_closed_page_is_refused_and_the_file_is_read_once(site: Site) -> None:
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /closed/\n")
    site.pages["/moved"] = Page(status=302, headers={"Location": "/closed/page"})
    assert fetch(f"{site.url}/open").content == b"open"
    for path in ("/closed/page", "/moved"):
        with pytest.raises(RootUnreadable, match=r"robots\.txt does not allow"):
            fetch(site.url + path)
    assert site.asked == ["/robots.txt", "/open", "/moved"]


def test_ignoring_robots_is_a_setting(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /\n")
    monkeypatch.setenv("RAG_IGNORE_ROBOTS", "1")
    assert fetch(f"{site.url}/open").content == b"open"
    assert site.asked == ["/open"]


@pytest.mark.parametrize("status", [404, 403, 401])
def test_a_site_without_the_file_forbids_nothing(site: Site, status: int) -> None:
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /\n", status)
    assert fetch(f"{site.url}/open").content == b"open"


def test_a_site_in_trouble_is_left_alone_for_a_while(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.pages["/robots.txt"] = Page(status=500)
    monkeypatch.setattr(web_robots, "_CACHE_SECONDS_FAILED", 0.5)
    for _ in range(2):
        with pytest.raises(RootUnreadable, match=r"robots\.txt: status 500"):
            fetch(f"{site.url}/open")
    assert site.asked == ["/robots.txt"]
    time.sleep(0.5)
    site.pages["/robots.txt"] = Page(b"")
    assert fetch(f"{site.url}/open").content == b"open"


def test_a_file_over_its_limit_says_so(site: Site) -> None:
    site.pages["/robots.txt"] = Page(b"#" * (web_robots.MAX_ROBOTS_BYTES + 1))
    with pytest.raises(RootUnreadable, match=r"robots\.txt is larger"):
        fetch(f"{site.url}/open")
