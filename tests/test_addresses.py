"""An address whose password is not written as it has to be is refused, and no part of it is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from rag_assets.addresses import (
    AddressFault,
    database_address,
    http_address,
    masked,
    sqlalchemy_address,
    storage_address,
)
from rag_assets.settings import Settings
from tests.support.command_line import Rag

# Pieces that are in nothing that we say, and the characters that have a meaning in a URL or a connection string.
PIECES = st.sampled_from(["zqxjk", "vwpfy", "77341", "5432", *"@/#?%:;&=+[]\\'\" \t", "%zz", "%40", "://", "é"])
PASSWORDS = st.lists(PIECES, min_size=1, max_size=6).map("".join)
SECRET = ("zqxjk", "vwpfy", "77341")


def parts_in(password: str, text: str) -> list[str]:
    return [piece for piece in SECRET if piece in password and piece in text]


def outcome(check: Callable[[str], str], text: str) -> tuple[str, str]:
    """The address, or what is wrong with it."""
    try:
        return check(text), ""
    except AddressFault as fault:
        return "", str(fault)


@given(PASSWORDS)
@example("zqxjk/vwpfy")
@example("77341/zqxjk")
@example("zqxjk@vwpfy")
@example("5432/vwpfy?zqxjk")
@example("?@")
def test_a_password_in_a_url_is_read_as_the_password_or_not_at_all(password: str) -> None:
    for form in (
        "postgresql://user:{}@host:5432/db",
        "postgres://user:{}@host/db",
        "postgresql://user:{}@/db?host=/run",
    ):
        url, fault = outcome(database_address, form.format(password))
        assert parts_in(password, fault) == []
        if fault:
            continue
        parts = conninfo_to_dict(url)
        assert str(parts["password"]).strip() == unquote(password).strip()
        said = f"{parts.get('host')} {parts.get('port')} {parts.get('dbname')} {parts.get('user')} {masked(url)}"
        assert parts_in(password, said) == []


@given(PASSWORDS)
@example("zqxjk pass=vwpfy")
def test_a_password_in_a_connection_string_is_read_as_the_password_or_not_at_all(password: str) -> None:
    text, fault = outcome(database_address, f"host=h password={password} dbname=d")
    assert parts_in(password, fault) == []
    if not fault:
        parts = conninfo_to_dict(text)
        assert parts_in(password, " ".join(str(parts.get(name)) for name in ("host", "port", "dbname", "user"))) == []


@pytest.mark.parametrize(
    "text",
    [
        "user:zqxjk@host/db", "zqxjk@host", "//user:zqxjk@host/db", "mysql://user:zqxjk@host/db?x=vwpfy",
        "postgresql+psycopg2://user:zqxjk@host/db", "dbname=postgresql://user:zqxjk@host/db", 
        "postgresql://user zqxjk@host/db",
        "postgresql://host:zqxjk/db", "postgresql://user:zqxjk", "", "zqxjk", "postgresql://u:p@h\n/zqxjk",
        "postgresql://u@h/db?host=zqxjk@x", "host=u:zqxjk@h", "postgresql://u@h:0/zqxjk", "postgresql://u@h:77341/db",
    ],
)  # fmt: skip
def test_what_is_no_database_is_refused_without_its_parts(text: str) -> None:
    with pytest.raises(AddressFault) as caught:
        database_address(text)
    assert [piece for piece in SECRET if piece in str(caught.value)] == []


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:p@h/d", "postgres://u@h", "postgresql:///d?host=/run/pg&user=u", "host=h password=p dbname=d",
        "postgresql://u:p%40%2F%23@h1:5432,h2:5433/d?target_session_attrs=read-write", "postgresql://[::1]:5432/d",
        "postgresql://postgres@/postgres?host=/tmp/a%20b/pg@home&port=5432", "service=rag", "postgresql://u:p#x@h/d",
    ],
)  # fmt: skip
def test_what_is_a_database_is_taken_as_it_is(text: str) -> None:
    assert database_address(text) == text


@given(PASSWORDS)
def test_a_password_for_dagsters_storage_is_read_as_the_password_or_not_at_all(password: str) -> None:
    _, fault = outcome(sqlalchemy_address, f"postgresql+psycopg2://user:{password}@host:5432/db")
    assert parts_in(password, fault) == []
    if not fault:
        assert "@" not in password, "SQLAlchemy would take what follows for the host"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://else/where", "postgresql+psycopg2://u:p%40@/d?host=%2Frun", "postgresql+psycopg2://u:p/q@h:5432/d",
        "postgresql+psycopg2://u@[::1]:5432/d",
    ],
)  # fmt: skip
def test_what_is_dagsters_storage_is_taken_as_it_is(text: str) -> None:
    assert sqlalchemy_address(text) == text


@pytest.mark.parametrize(
    "text",
    ["mysql://u:zqxjk@h/d", "postgres://u:zqxjk@h/d", "postgresql+psycopg://u:zqxjk@h/d", "u:zqxjk@h/d", "sqlite:///zqxjk"],
)  # fmt: skip
def test_what_is_not_dagsters_storage_is_refused_without_its_parts(text: str) -> None:
    with pytest.raises(AddressFault) as caught:
        sqlalchemy_address(text)
    assert "zqxjk" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "api.openai.com/v1", "ftp://host/v1", "https://", "https:///v1", "https://host:port/v1", "https://host:99999/v1",
        "https://ho st/v1", "https://u:zq/xjk@host/v1", "https://host\n/v1", "http//host", "https://[host/v1",
    ],
)  # fmt: skip
def test_what_is_no_web_server_is_refused_without_its_parts(text: str) -> None:
    with pytest.raises(AddressFault) as caught:
        http_address(text)
    assert "xjk" not in str(caught.value)


@pytest.mark.parametrize("text", ["s3:/bucket", "nosuch://bucket", "s4://k:zqxjk@bucket/x", "a\x00b", "/srv/\x1b[2J"])
def test_what_is_no_storage_is_refused_without_its_parts(text: str) -> None:
    with pytest.raises(AddressFault) as caught:
        storage_address(text)
    assert "zqxjk" not in str(caught.value)


def test_a_folder_for_storage_is_the_same_wherever_a_process_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert storage_address("parquet") == str(tmp_path / "parquet")
    assert Settings(storage="parquet").storage == str(tmp_path / "parquet")
    for text in ("/srv/rag", "s3://bucket/rag", "memory://x", "file:///srv/rag", "C:/rag"):
        assert storage_address(text) in (text, str(tmp_path / text))


MALFORMED = {
    "DATABASE_URL": "postgresql://user:zqxjk/vwpfy@127.0.0.1/db",
    "RAG_STORAGE": "s4://user:zqxjk@bucket",
    "DAGSTER_PG_URL": "postgresql+psycopg2://user:zqxjk@vwpfy@host/db",
    "OPENAI_BASE_URL": "https//user:zqxjk@host",
    "GOOGLE_GEMINI_BASE_URL": "https://user:zqxjk/vwpfy@host",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_address_ends_a_command_by_its_variable_and_is_shown_by_none(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, MALFORMED[name])
    rag = Rag()
    kind, message = rag.error("tenant", "list")
    assert (kind, message.split()[0]) == ("UsageError", name)
    faults = {setting["name"]: setting["error"] for setting in rag.json("config", code=2)["settings"]}
    assert [variable for variable, error in faults.items() if error] == [name]
    said = message + rag("config", code=2).stdout + rag("config", "--json", code=2).stdout
    assert [piece for piece in SECRET if piece in said] == []


@pytest.mark.parametrize("name", ["RAG_APP_DATABASE_URL", "RAG_SEARCH_DATABASE_URL"])
def test_a_login_for_searches_alone_is_a_mistake(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv(name, "postgresql://user:zqxjk@host/db")
    kind, message = Rag().error("tenant", "list")
    assert kind == "UsageError"
    assert message.startswith(f"{name} ")
    assert "DATABASE_URL names, which is not set" in message
    monkeypatch.setenv("DATABASE_URL", "user:zqxjk@host")
    found = Rag().json("config", code=2)["settings"]
    assert {setting["name"] for setting in found if setting["error"]} == {"DATABASE_URL", name}
