from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rag_assets.addresses import masked
from rag_assets.settings import variables

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import Rag


PASSWORD_IN = {
    "database": "postgresql://user:hunter2@host/path?sslpassword=hunter2&sslmode=require",
    "dagster": "postgresql+psycopg2://user:hunter2@host/path?sslpassword=hunter2",
    "http": "https://user:hunter2@host/path?password=hunter2&mode=x",
}


def kind_of(name: str) -> str:
    return "dagster" if name.startswith("DAGSTER") else "database" if name.endswith("DATABASE_URL") else "http"


def _by_name(rag: Rag, code: int = 0) -> dict[str, dict[str, object]]:
    return {setting["name"]: setting for setting in rag.json("config", code=code)["settings"]}


def test_every_setting_is_shown_with_where_it_comes_from(
    rag: Rag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RAG_PARSE_ENV", "OCR_MODEL, OCR_HOME")
    found = _by_name(rag)
    assert list(found) == [variable.name for variable in variables()]
    assert [found["RAG_HOME"][key] for key in ("value", "source")] == [str(tmp_path / "home"), "environment"]
    assert [found["RAG_STORAGE"][key] for key in ("value", "source")] == [str(tmp_path / "home/storage"), "derived"]
    assert [found["RAG_BATCH_TOKENS"][key] for key in ("value", "source")] == [500_000, "default"]
    assert [found["DATABASE_URL"][key] for key in ("value", "source")] == [None, "default"]
    assert found["RAG_PARSE_ENV"]["value"] == ["OCR_MODEL", "OCR_HOME"]
    assert all(setting["meaning"] and setting["error"] is None for setting in found.values())
    assert not (tmp_path / "home").exists()


def test_of_a_key_it_only_tells_whether_it_is_set(rag: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-hunter2")
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    found = _by_name(rag)
    keys = {name: setting["value"] for name, setting in found.items() if setting["secret"]}
    assert keys == {
        "GEMINI_API_KEY": "set",
        "GOOGLE_API_KEY": "not set",
        "OPENAI_API_KEY": "not set",
        "RAG_DEV_TOKEN": "not set",
        "RAG_MCP_TOKEN": "not set",
        "RAG_SCOPE_KEY": "not set",
        "RAG_SERVE_METRICS_TOKEN": "not set",
    }
    assert "hunter2" not in rag("config").stdout + rag("config", "--json").stdout


def test_passwords_in_addresses_are_masked(rag: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in variables():
        if variable.name.endswith(("_URL", "_STORAGE")):
            monkeypatch.setenv(variable.name, PASSWORD_IN[kind_of(variable.name)])
    found = _by_name(rag)
    assert found["DATABASE_URL"]["value"] == "postgresql://user:***@host/path?sslpassword=***&sslmode=require"
    assert found["OPENAI_BASE_URL"]["value"] == "https://user:***@host/path?password=***&mode=x"
    assert "hunter2" not in rag("config").stdout + rag("config", "--json").stdout


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:p@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:p/q@r:s@h:5432/d?sslmode=require", "postgresql://u:***@h:5432/d?sslmode=require"),
        ("postgresql://:p@h/d", "postgresql://:***@h/d"),
        ("postgresql:///d?host=/run&user=u&password=p", "postgresql:///d?host=/run&user=u&password=***"),
        ("host=h password=p dbname=d", "host=h password=*** dbname=d"),
        (r"host=h password = 'p \' q' dbname=d", "host=h password = *** dbname=d"),
        ("postgresql://u@h:5432/d", "postgresql://u@h:5432/d"),
        ("https://h:8080/v1", "https://h:8080/v1"),
        ("s3://bucket/rag", "s3://bucket/rag"),
        ("/srv/rag@home/storage", "/srv/rag@home/storage"),
    ],
)
def test_what_is_no_password_stays(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_a_wrong_value_is_shown_with_its_error_and_the_others_are_there(
    rag: Rag, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_BATCH_TOKENS", "abc")
    monkeypatch.setenv("RAG_DEVICE", "cpu")
    monkeypatch.setenv("RAG_HOME", "~nobody-of-this-name/rag")
    found = _by_name(rag, code=2)
    assert found["RAG_BATCH_TOKENS"]["value"] == "abc"
    assert found["RAG_BATCH_TOKENS"]["source"] == "environment"
    assert found["RAG_BATCH_TOKENS"]["error"] == "RAG_BATCH_TOKENS=abc: it has to be a whole number of at least 1"
    assert {name for name, setting in found.items() if setting["error"]} == {"RAG_BATCH_TOKENS", "RAG_HOME"}
    assert found["RAG_DEVICE"]["value"] == "cpu"
    assert "has to be a whole number of at least 1" in rag("config", code=2).stdout


@pytest.mark.parametrize("columns", [80, 200])
def test_no_line_is_wider_than_the_terminal_and_every_name_is_whole(
    rag: Rag, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("DATABASE_URL", "postgresql://user@" + "a-long-name-of-a-host." * 12 + "example/rag")
    text = rag("config").stdout
    assert max(map(len, text.splitlines())) <= columns
    assert all(variable.name in text for variable in variables())


def test_a_command_that_needs_a_wrong_setting_is_wrong_use(rag: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PARSE_SECONDS", "soon")
    kind, message = rag.error("tenant", "list")
    assert (kind, message) == (
        "UsageError",
        "RAG_PARSE_SECONDS=soon: it has to be a number above 0 and below 1,000,000,000",
    )


def test_a_home_that_nobody_named_says_where_it_was_found_and_that_it_is_not_there_yet(
    rag: Rag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_HOME", str(tmp_path / "named"))
    assert "not there yet: made by `rag up`" in str(_by_name(rag)["RAG_HOME"]["note"])
    monkeypatch.delenv("RAG_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "project" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "below")
    assert str(_by_name(rag)["RAG_HOME"]["note"]).startswith("none was found in the working folder, above it, or with")
    assert "not there yet" in rag("config").stdout
    for folder, said in (
        (tmp_path / "data" / "rag-assets", "the user's own"),
        (tmp_path / "project" / ".rag", "found above the working folder"),
        (tmp_path / "project" / "below" / ".rag", "found in the working folder"),
    ):
        folder.mkdir(parents=True)
        home = _by_name(rag)["RAG_HOME"]
        assert (home["value"], home["note"]) == (str(folder), said)


@pytest.mark.parametrize(
    ("name", "meant"), [("RAG_HOEM", "RAG_HOME"), ("rag_debug", "RAG_DEBUG"), ("RAG_OF_ANOTHER_PROGRAM", None)]
)
def test_a_variable_that_is_no_setting_is_told_once_with_the_one_that_was_meant(
    rag: Rag, name: str, meant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "x")
    monkeypatch.setenv("RAG_ROOT_PASSWORD", "x")
    monkeypatch.setenv("RAG_OCR", "x")
    monkeypatch.setenv("RAG_PARSE_ENV", "RAG_OCR")
    assert rag.json("config")["unknown"] == {name: meant}
    said = f"Warning: {name} is set and is no setting; " + (
        f"did you mean '{meant}'?" if meant else "nothing here reads"
    )
    assert rag("config").stderr.count(said) == 1
    assert rag("tenant", "list").stderr.count(said) == (1 if meant else 0)
