"""One table holds every setting: what it may be, what it means, and nothing reads the environment beside it."""

from __future__ import annotations

import ast
import copy
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rag_assets.errors import UsageError
from rag_assets.settings import Settings, load_settings, markdown, variables
from rag_assets.sources.secrets import PREFIX

ROOT = Path(__file__).resolve().parent.parent
CODE = [path for part in ("rag_assets", "evals") for path in sorted((ROOT / part).rglob("*.py"))]
# Not a setting of ours: what a child process inherits, and what a terminal tells every program.
ELSEWHERE = {
    ("rag_assets/children.py", "plain_environment"): "the variables that a process without secrets may see",
    ("rag_assets/documents/tools.py", "_environment"): "the variables that a program may see that reads a file",
    ("rag_assets/launch/dev.py", "serve"): "the environment of what `rag dev` starts",
    ("rag_assets/launch/services.py", "main"): "the same, without the token for all but the webserver",
    ("rag_assets/runs/launcher.py", "__init__"): "the environment of runs",
    ("rag_assets/commands/shell.py", "_console"): "COLUMNS",
}


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in variables():
        monkeypatch.delenv(variable.name, raising=False)


def test_without_any_variable_there_are_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert (settings.home, settings.storage) == (tmp_path / ".rag", str(tmp_path / ".rag" / "storage"))
    assert (settings.database_url, settings.app_database_url, settings.dagster_pg_url) == (None, None, None)
    assert (settings.batch_min_items, settings.batch_job_items, settings.batch_tokens) == (200, 1000, 500_000)
    assert (settings.parse_seconds, settings.parse_memory_mb, settings.parse_env) == (30, 1024, ())
    assert (settings.device, settings.embedding_pool) == ("auto", None)
    assert (settings.provider_wait_s, settings.sensor_provider_wait_s) == (600, 20)
    assert (settings.debug, settings.allow_private_urls, settings.ignore_robots) == (False, False, False)


def test_a_home_is_found_upwards_as_git_finds_its_folder_and_else_with_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / "project" / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert load_settings().home == deep / ".rag", "the one that would be made"
    (tmp_path / "data" / "rag-assets").mkdir(parents=True)
    assert load_settings().home == tmp_path / "data" / "rag-assets"
    (tmp_path / "project" / ".rag").mkdir()
    assert load_settings().home == tmp_path / "project" / ".rag"
    (deep / ".rag").mkdir()
    assert load_settings().home == deep / ".rag"
    monkeypatch.setenv("RAG_HOME", "elsewhere")
    assert load_settings().home == deep / "elsewhere"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_home_above_that_is_somebody_elses_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / ".rag").mkdir()
    os.chown(tmp_path / ".rag", 12345, 12345)
    monkeypatch.chdir(tmp_path / "a")
    assert load_settings().home == tmp_path / "a" / ".rag"


@pytest.mark.parametrize("place", ["/dev/null", "/dev/null/rag", "{file}", "{file}/rag"])
def test_a_home_that_could_never_be_a_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RAG_HOME", place.format(file=tmp_path / "file"))
    with pytest.raises(UsageError, match=r"RAG_HOME=.*: it has to be a folder"):
        load_settings()


def test_the_environment_counts_at_the_moment_of_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    for tokens in (7, 8):
        monkeypatch.setenv("RAG_BATCH_TOKENS", str(tokens))
        assert load_settings().batch_tokens == tokens


def test_a_blank_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    unset = load_settings()
    for variable in variables():
        monkeypatch.setenv(variable.name, "  ")
    assert load_settings() == unset


def test_only_the_exact_name_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in variables():
        monkeypatch.setenv(variable.field, "7")
        monkeypatch.setenv(variable.name.lower(), "7")
    assert load_settings() == Settings()
    assert load_settings().batch_tokens == 500_000


def test_an_application_may_say_what_it_wants_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_HOME", "/elsewhere")
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/rag")
    settings = Settings(home=tmp_path, database_url=None)
    assert (settings.home, settings.storage, settings.database_url) == (tmp_path, str(tmp_path / "storage"), None)
    with pytest.raises(TypeError, match="positional"):
        Settings(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("RAG_BATCH_TOKENS", "abc", "a whole number of at least 1"),
        ("RAG_BATCH_MIN_ITEMS", "0", "a whole number of at least 1"),
        ("RAG_BATCH_JOB_ITEMS", "2.5", "a whole number of at least 1"),
        ("RAG_EMBEDDING_POOL", "1001", "a whole number of at least 1 and at most 1,000"),
        ("RAG_PARSE_SECONDS", "nan", "a number above 0 and below 1,000,000,000"),
        ("RAG_PARSE_MEMORY_MB", "-1", "a number above 0 and below 1,000,000,000"),
        ("RAG_DEVICE", "abacus", "auto, cpu, cuda, cuda:N or mps"),
        ("RAG_IGNORE_ROBOTS", "perhaps", "0 or 1"),
        ("RAG_ALLOW_PRIVATE_URLS", "yes", "0 or 1"),
        ("RAG_DEBUG", "true", "0 or 1"),
        ("RAG_IGNORE_ROBOTS", "on", "0 or 1"),
        ("RAG_HOME", "~nobody-of-this-name/rag", "a folder"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(
    name: str, value: str, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as caught:
        load_settings()
    assert str(caught.value) == f"{name}={value}: it has to be {allowed}"


def test_all_wrong_values_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_BATCH_TOKENS", "many")
    monkeypatch.setenv("RAG_DEBUG", "loudly")
    with pytest.raises(UsageError, match=r"RAG_BATCH_TOKENS=many: .*; RAG_DEBUG=loudly: "):
        load_settings()


def _scheme(name: str) -> str:
    return "postgresql" if name.endswith(("DATABASE_URL", "PG_URL")) else "https"


def test_neither_a_key_nor_an_address_is_in_what_settings_say_of_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in variables():
        if variable.secret or variable.name.endswith(("_URL", "_STORAGE")):
            monkeypatch.setenv(variable.name, f"{_scheme(variable.name)}://user:hunter2-and-more@host")
    monkeypatch.setenv("RAG_SCOPE_KEY", "hunter2andmore" * 4)
    settings = load_settings()
    monkeypatch.setenv("RAG_DEVICE", "abacus")
    with pytest.raises(UsageError) as caught:
        load_settings()
    assert "hunter2" not in f"{settings!r} {settings} {caught.value!r} {caught.value.__context__!r}"


def test_settings_are_not_pickled() -> None:
    settings = load_settings()
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(settings)
    assert copy.copy(settings) == settings


def test_the_page_of_all_settings_is_current() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page == markdown(), "python -m rag_assets.settings > docs/configuration.md"


def test_every_setting_has_a_meaning_of_one_sentence() -> None:
    for variable in variables():
        assert re.fullmatch(r"[A-Z`].*[^.\s]", variable.meaning), variable.name


def test_nothing_but_the_table_reads_the_environment() -> None:
    found = {(str(path.relative_to(ROOT)), function) for path in CODE for function in _readers(path)}
    assert {place for place in found if place[0] != "rag_assets/settings.py"} == set(ELSEWHERE)


def test_no_text_names_a_variable_that_there_is_not() -> None:
    known = {variable.name for variable in variables()}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *CODE]
    named = {name for page in pages for name in re.findall(r"\bRAG_[A-Z]+(?:_[A-Z]+)*\b", page.read_text())}
    # What addresses of roots refer to is named by whoever adds the root.
    assert {name for name in named if not name.startswith(PREFIX)} <= known


def test_the_help_of_the_command_line_does_not_wait_for_settings() -> None:
    code = (
        "import sys; from rag_assets.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: print('pydantic' in sys.modules, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr == "False\n"


def _readers(path: Path) -> set[str]:
    """The functions in which a file reads the environment; "" for its top level."""
    found: set[str] = set()

    def visit(node: ast.AST, function: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        imported = node.names if isinstance(node, ast.ImportFrom) else []
        names = {getattr(node, "attr", ""), *(alias.name for alias in imported)}
        if names & {"environ", "environb", "getenv", "getenvb"}:
            found.add(function)
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(ast.parse(path.read_text()), "")
    return found
