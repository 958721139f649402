"""A secret in an address is neither remembered nor shown; a reference to a variable stands for it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import suppress

import pytest

from rag_assets.errors import RootUnreadable, UsageError
from rag_assets.sources.roots import resolve_roots
from rag_assets.sources.scan import read_content, scan_root
from rag_assets.sources.secrets import public_name, secret_problem, shown, shown_text
from rag_assets.sources.web.fetch import fetch
from tests.support.web_site import Page, Site, running_site

WITH_SECRETS = [
    "https://user:hunter2@host/a",
    "https://hunter2@host/a",
    "https://:hunter2@host/a",
    "s3://key:hunter2@bucket/a",
    *(
        f"https://host/a?x=1&{name}=hunter2"
        for name in (
            *(
                "token",
                "access_token",
                "accessToken",
                "api_key",
                "apikey",
                "API-KEY",
                "key",
                "sig",
                "Signature",
                "auth",
            ),
            *("X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token", "X-Goog-Signature", "password", "pwd"),
            *("client_secret", "jwt", "sessionid", "AWSAccessKeyId", "private_token", "secret", "sas", "auth"),
        )
    ),
    "https://host/a#access_token=hunter2",
    "https://host/a?x=1;token=hunter2",
    "https://host/a;jsessionid=hunter2",
    *(
        f"https://host/a?{name}=hunter2"
        for name in (
            *("key1", "authkey", "apitoken", "mytoken", "hapikey", "PHPSESSID", "userpass", "passkey", "pw", "hmac"),
            *("oauth_verifier", "%74oken", "x[token]", "apiKey_v2"),
        )
    ),
    "https://host/a?url=https://user:hunter2@other/",
    "https://host/a?next=https%3A%2F%2Fother%2F%3Ftoken%3Dhunter2",
    "https://host/a?code=ghp_hunter20123456789abcdef0123456789",
    "https://host/ghp_hunter20123456789abcdef0123456789/a",
    "https://host/a?q=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.hunter2",
    "az://container/a?sig=hunter2",
]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("RAG_ALLOW_PRIVATE_URLS", "1")
    with running_site() as running:
        yield running


@pytest.mark.parametrize("root", WITH_SECRETS)
def test_a_root_with_a_secret_is_refused_without_showing_it(root: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_roots([root])
    assert "hunter2" not in str(caught.value)
    assert "RAG_ROOT_" in str(caught.value), "the way out"


@pytest.mark.parametrize(
    "root",
    [
        *("https:///user:hunter2@host/a", "https://user:hunter2%40host/a", "https://user:hun/ter/hunter2@host/a"),
        *("https:\\\\user:hunter2@host", "https:user:hunter2@host/a", "https:/user:hunter2@host/a"),
        *("file://user:hunter2@host/a", "ftp://user:hunter2/x@host/a", "sftp://user:hunter2@host/a"),
    ],
)
def test_an_address_that_is_written_wrongly_is_refused_without_showing_its_password(root: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_roots([root])
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "root",
    [
        *("https://host:8080/@user/a", "https://host/a?monkey=1&author=x&page=2", "https://host/compass?passage=3"),
        *("https://host/a?design=2&signal=x", "https://host/tokens/secret-garden", "abfs://container@account/a"),
    ],
)
def test_an_address_without_a_secret_is_taken_as_it_is(root: str) -> None:
    assert resolve_roots([root]) == [root]
    assert shown(root) == root


@pytest.mark.parametrize("root", WITH_SECRETS)
def test_one_that_was_remembered_is_unreadable_by_name_and_its_secret_is_hidden(root: str) -> None:
    with pytest.raises(RootUnreadable) as caught:
        scan_root(root)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in shown(root)
    assert "hunter2" not in shown_text(f"root {root} could not be read")


@pytest.mark.parametrize(
    "root",
    [
        "https://host/a?author=x&page=2&keyword=y&design=z&monkey=1&tokens=many&assign=me&passage=3",
        "https://host/wiki/token/key?action=view",
        "abfs://container@account.dfs.core.windows.net/a",
        "s3://bucket/token=1/key=2",
        "https://host/a@b?mail=a@b.org",
        "https://host/?token=",
    ],
)
def test_what_only_resembles_a_secret_is_read(root: str) -> None:
    assert secret_problem(root) is None
    assert shown(root) == root


@pytest.mark.parametrize(
    "root",
    [
        "https://{env:GEMINI_API_KEY}@host/",
        "https://host/?q={env:DATABASE_URL}",
        "https://host/{env:HOME}",
        "https://{env:RAG_ROOT_}@host/",
        "https://{env:RAG_ROOT_HOST}/",
        "https://u.{env:RAG_ROOT_HOST}:80/",
    ],
)
def test_no_address_reaches_another_variable_or_names_its_host_by_one(root: str) -> None:
    with pytest.raises(UsageError):
        resolve_roots([root])


def test_a_reference_is_filled_in_when_the_page_is_read_and_shown_nowhere(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_ROOT_USER", "ann")
    monkeypatch.setenv("RAG_ROOT_PASSWORD", "hunter2:/@")
    monkeypatch.setenv("RAG_ROOT_TOKEN", "a&b=c")
    host = site.url.removeprefix("http://")
    root = f"http://{{env:RAG_ROOT_USER}}:{{env:RAG_ROOT_PASSWORD}}@{host}/a?x=1&token={{env:RAG_ROOT_TOKEN}}"
    site.pages["/a?x=1&token=a%26b%3Dc"] = Page(b"text")
    assert resolve_roots([root]) == [root]
    (file,) = scan_root(root).files
    assert (file.uri, file.path_in_root) == (root, f"{site.url}/a?x=1")
    assert read_content(file).data == b"text"
    sent = [headers["Authorization"] for headers in site.headers if "Authorization" in headers]
    assert set(sent) == {"Basic " + base64.b64encode(b"ann:hunter2:/@").decode()}
    assert "robots" in site.asked[0]
    assert site.headers[0]["Authorization"] is None
    site.pages.clear()
    with pytest.raises(RootUnreadable, match="status 404") as caught:
        fetch(root)
    assert "hunter2" not in str(caught.value)
    assert "a%26b" not in str(caught.value)


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_ROOT_TOKEN", raising=False)
    with pytest.raises(RootUnreadable, match="RAG_ROOT_TOKEN is not set"):
        scan_root("https://example.com/?token={env:RAG_ROOT_TOKEN}")


def test_user_and_password_go_to_no_other_server(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_ROOT_LOGIN", "hunter2")
    with running_site() as other:
        other.pages["/b"] = Page(b"other")
        site.pages["/a"] = Page(status=302, headers={"Location": f"{other.url}/b"})
        site.pages["/c"] = Page(status=302, headers={"Location": f"{site.url}/d"})
        site.pages["/d"] = Page(b"same")
        login = site.url.replace("http://", "http://{env:RAG_ROOT_LOGIN}@")
        assert fetch(f"{login}/a").content == b"other"
        assert all("Authorization" not in headers for headers in other.headers)
        assert fetch(f"{login}/c").content == b"same"
        assert site.headers[-1]["Authorization"]


def test_an_error_on_the_way_shows_no_secret(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_ROOT_TOKEN", "hunter2")
    site.pages["/busy?t=hunter2"] = Page(status=503, headers={"Retry-After": "3600"})
    site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /closed")
    for path in ("/busy", "/closed", "/none"):
        with pytest.raises(RootUnreadable) as caught:
            fetch(f"{site.url}{path}?t={{env:RAG_ROOT_TOKEN}}")
        assert "hunter2" not in str(caught.value)


def test_the_pages_of_a_sitemap_are_read_with_its_user_and_password(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_ROOT_LOGIN", "hunter2")
    body = f"<urlset><url><loc>{site.url}/a</loc></url></urlset>"
    site.pages |= {"/sitemap.xml": Page(body.encode()), "/a": Page(b"text")}
    login = site.url.replace("http://", "http://{env:RAG_ROOT_LOGIN}@")
    (file,) = scan_root(f"{login}/sitemap.xml").files
    assert (file.uri, file.path_in_root) == (f"{login}/a", f"{site.url}/a")
    assert read_content(file).data == b"text"
    assert site.headers[-1]["Authorization"]


def test_a_page_is_known_to_its_readers_without_what_opens_it() -> None:
    address = "https://{env:RAG_ROOT_USER}@host/a?token={env:RAG_ROOT_TOKEN}&x=1"
    assert public_name(address) == "https://host/a?x=1"


@pytest.mark.parametrize(
    "written",
    ["/page?x={env:RAG_ROOT_TOKEN}", "/{env:RAG_ROOT_TOKEN}/page", "/page#{env:RAG_ROOT_TOKEN}", "/{env:HOME}"],
)
@pytest.mark.parametrize("named_as", ["page", "sitemap"])
def test_a_site_cannot_have_a_variable_sent_to_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, written: str, named_as: str
) -> None:
    """What a sitemap says is the site's own text; only who adds a root refers to variables."""
    monkeypatch.setenv("RAG_ROOT_TOKEN", "hunter2")
    kinds = {"page": ("urlset", "url"), "sitemap": ("sitemapindex", "sitemap")}
    whole, one = kinds[named_as]
    site.pages["/sitemap.xml"] = Page(f"<{whole}><{one}><loc>{site.url}{written}</loc></{one}></{whole}>".encode())
    for file in scan_root(f"{site.url}/sitemap.xml").files:
        with suppress(RootUnreadable):
            read_content(file)
    assert len(site.asked) > 2, "it was asked for what it named"
    assert "hunter2" not in " ".join([*site.asked, *map(str, site.headers)])


def test_a_page_of_a_sitemap_brings_no_login_of_its_own(site: Site) -> None:
    """It would be stored as the name of a source, and take the place of the one that the root refers to."""
    site.pages["/sitemap.xml"] = Page(
        f"<urlset><url><loc>{site.url.replace('://', '://user:hunter2@')}/page</loc></url></urlset>".encode()
    )
    assert [file.uri for file in scan_root(f"{site.url}/sitemap.xml").files] == [f"{site.url}/page"]
