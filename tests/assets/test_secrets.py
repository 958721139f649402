"""After a full run with failures, retries and all logging on: where are the key, and a tenant's words?

The key may be nowhere. What is inside a tenant's files may be in its own rows of the tables that hold documents, in
the Parquet files under its own folder, in the previews among Dagster's metadata of its own partition, and in answers to
itself. The names of its files may be there too, and in its own failures. What the provider refuses is quoted in the
failure of its source, for the tenant alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.secrets_world import Cell, Remains, Tenant, full_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Columns that hold what is inside files, as text.
DOCUMENTS = {
    ("knowledge_chunks", "content"), ("knowledge_chunks", "citation"), ("knowledge_chunks", "fts"),
    ("lexeme_stats", "lexeme"),
    ("source_documents", "text"), ("source_documents", "title"), ("source_documents", "blocks"),
    ("knowledge_sources", "name"),  # the title of a document that has one
}  # fmt: skip
REASONS = {("knowledge_sources", "error_message"), ("source_profiles", "error_message")}
NAMES = {
    ("knowledge_sources", "name"), ("knowledge_sources", "external_id"), ("knowledge_sources", "metadata"),
    ("source_files", "uri"),
}  # fmt: skip
PREVIEWS = {("event_logs", "event"), ("asset_keys", "last_materialization")}
FAILURES = {*PREVIEWS, ("asset_check_executions", "evaluation_event")}


@pytest.fixture(scope="module")
def remains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remains]:
    with pytest.MonkeyPatch.context() as patch, full_run(tmp_path_factory.mktemp("secrets"), patch) as found:
        yield found


@pytest.fixture(params=[0, 1], ids=["acme", "globex"])
def tenant(remains: Remains, request: pytest.FixtureRequest) -> Tenant:
    return remains.tenants[request.param]


def holding(cells: Iterator[Cell], *words: str) -> list[Cell]:
    return [cell for cell in cells if any(word in cell.text for word in words)]


def places(cells: list[Cell]) -> set[tuple[str, str]]:
    return {(cell.table, cell.column) for cell in cells}


def test_the_key_is_in_no_table(remains: Remains) -> None:
    assert holding(remains.product(), remains.key) == []
    assert holding(remains.dagster(), remains.key) == []


def test_the_key_is_in_no_file_be_it_of_the_database_a_log_or_a_table(remains: Remains) -> None:
    files = remains.files()
    assert {"pg_wal", "base", "compute_logs", "log"} <= {part for path in files for part in path.parts}
    assert [path for path, data in files.items() if remains.key.encode() in data] == []


def test_no_process_says_the_key(remains: Remains) -> None:
    assert [name for name, text in remains.said.items() if remains.key in text] == []


def test_what_is_inside_files_is_only_in_documents_of_their_tenant(remains: Remains, tenant: Tenant) -> None:
    found = holding(remains.product(), *tenant.contents)
    assert places(found) == DOCUMENTS | REASONS, "all of these, or the search does not see what is there"
    assert {cell.tenant for cell in found} == {tenant.key}
    quoted = [cell for cell in found if (cell.table, cell.column) in REASONS]
    assert not holding(iter(quoted), *tenant.words, tenant.broken), "only what was refused is quoted"


def test_names_of_files_are_only_in_sources_of_their_tenant(remains: Remains, tenant: Tenant) -> None:
    found = holding(remains.product(), tenant.name)
    assert places(found) == NAMES
    assert {cell.tenant for cell in found} == {tenant.key}


def test_what_was_counted_and_limited_is_there_without_any_words(remains: Remains) -> None:
    counted = {cell.table for cell in remains.product()}
    assert {"embedding_usage", "embedding_cache", "rate_requests", "rate_blocks", "rate_limits"} <= counted
    words = [word for tenant in remains.tenants for word in (*tenant.contents, tenant.name)]
    accounts = {cell.text for cell in remains.product() if cell.column == "account"}
    assert accounts == {"@"}, "the account of a key is told by the names of variable and server"
    assert not [cell for cell in holding(remains.product(), *words) if cell.table.startswith(("rate_", "embedding_"))]


def tenants_of(cells: list[Cell], remains: Remains) -> set[str]:
    """The tenants of the runs that these events of Dagster's are of."""
    runs = remains.tenant_of_runs()
    found = [re.findall(r'"run_id": "([0-9a-f-]{36})"', cell.text) for cell in cells]
    assert all(found), "an event of no run"
    return {runs[run] for of_cell in found for run in of_cell}


def test_dagster_knows_of_a_document_what_the_preview_of_its_own_partition_shows(
    remains: Remains, tenant: Tenant
) -> None:
    found = holding(remains.dagster(), *tenant.contents)
    assert ("event_logs", "event") in places(found), "the search does not see what is there"
    assert places(found) <= PREVIEWS
    assert all('"preview"' in cell.text for cell in found)
    assert tenants_of(found, remains) == {tenant.key}
    assert not holding(iter(found), tenant.broken), "what could not be read was kept"


def test_dagster_knows_the_name_of_a_file_from_its_failure_in_its_own_partition(
    remains: Remains, tenant: Tenant
) -> None:
    found = holding(remains.dagster(), tenant.name)
    assert ("event_logs", "event") in places(found), "the search does not see what is there"
    assert places(found) <= FAILURES
    assert all('"failures"' in cell.text for cell in found)
    assert tenants_of(found, remains) == {tenant.key}


def test_staged_tables_hold_only_the_words_of_their_tenant(remains: Remains, tenant: Tenant) -> None:
    staged = {path: data for path, data in remains.files().items() if path.suffix == ".parquet"}
    words = [word.encode() for word in tenant.contents]
    found = [path for path, data in staged.items() if any(word in data for word in words)]
    assert found
    assert {path.relative_to(remains.home / "storage").parts[0] for path in found} == {tenant.key}


def test_no_log_holds_what_is_inside_a_file(remains: Remains, tenant: Tenant) -> None:
    logs = {
        path: data
        for path, data in remains.files().items()
        if "compute_logs" in path.parts or path == remains.home / "postgres" / "log"
    }
    everything = b"".join(logs.values())
    assert b"httpcore2" in everything, "the logs have to go down to the lowest level"
    assert b"next try in" in everything, "a request has to be repeated"
    hidden = [word.encode() for word in (*tenant.contents, tenant.name)]
    assert [path for path, data in logs.items() if any(word in data for word in hidden)] == []


def test_no_other_file_holds_a_tenants_words(remains: Remains, tenant: Tenant) -> None:
    # Postgres' own files hold its rows, which other tests look at.
    postgres = remains.home / "postgres"
    known = (remains.home / "storage" / tenant.key, postgres / "base", postgres / "pg_wal")
    words = [word.encode() for word in (*tenant.contents, tenant.name)]
    found = [path for path, data in remains.files().items() if any(word in data for word in words)]
    assert [path for path in found if not any(path.is_relative_to(folder) for folder in known)] == []


def test_answers_and_errors_hold_a_tenants_words_only_where_it_asked_for_them(remains: Remains, tenant: Tenant) -> None:
    inside = {name for name, text in remains.said.items() if any(word in text for word in tenant.contents)}
    # The ingest of the first one lists what was refused; that of the second failed before that.
    lists_failures = {(tenant.key, "ingest")} if tenant is remains.tenants[0] else set()
    assert inside == {(tenant.key, "search"), (tenant.key, "sources"), *lists_failures}
    named = {name for name, text in remains.said.items() if tenant.name in text}
    assert named <= {*inside, (tenant.key, "ingest")}


def test_the_run_was_as_bad_as_it_was_meant_to_be(remains: Remains) -> None:
    first, second = remains.tenants
    assert "Traceback" in remains.said[second.key, "ingest"]
    assert "next try in" in remains.said["", "first jobs"]
    errors = [cell for cell in remains.product() if (cell.table, cell.column) == ("knowledge_sources", "error_message")]
    for tenant in (first, second):
        failed = [cell.text for cell in errors if cell.tenant == tenant.key and cell.text != "None"]
        assert len(failed) == 4, "three files and a text"
        assert sum("HTTP 400" in text for text in failed) == 1
