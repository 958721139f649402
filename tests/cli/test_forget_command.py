"""`rag forget`: one source goes now, and stays away."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from rag_assets.ingest.run import ingest
from rag_assets.settings import load_settings
from rag_assets.store.database import Database, with_database
from rag_assets.store.roots import add_root
from rag_assets.store.server import running_url
from tests.support.command_line import Rag


def _of(tenant: str, *words: str) -> tuple[str, ...]:
    return ("forget", "pump.md", "--tenant", tenant, "--bot", "b", *words)


def _found(rag: Rag, tenant: str) -> set[str]:
    results = rag.json("search", "pump goods", "--tenant", tenant, "--bot", "b")["results"]
    return {result["source_name"] for result in results}


def test_a_dry_run_tells_what_would_go_and_takes_nothing(rag: Rag, filled: str) -> None:
    answer = rag.json(*_of(filled, "--dry-run"))
    assert (answer["dry_run"], [one["name"] for one in answer["sources"]]) == (True, ["pump.md"])
    assert "would be forgotten: pump.md" in rag(*_of(filled, "--dry-run")).stdout
    assert _found(rag, filled) == {"pump.md", "returns.txt"}


def test_it_asks_before_it_forgets(rag: Rag, filled: str) -> None:
    assert "nothing was forgotten" in rag(*_of(filled), answer="n\n").stdout
    assert _found(rag, filled) == {"pump.md", "returns.txt"}
    assert "pump.md is forgotten" in rag(*_of(filled), answer="y\n").stdout
    assert _found(rag, filled) == {"returns.txt"}
    assert rag.json(*_of(filled), code=2)["error"]["type"] == "UsageError", "--json cannot ask"


def test_what_is_forgotten_is_listed_and_in_the_audit_and_comes_back_when_it_is_allowed(rag: Rag, filled: str) -> None:
    answer = rag.json(*_of(filled, "--yes"))
    assert (answer["chunks"], answer["versions"], answer["vectors"]) == ({"tiny": 1}, 1, 1)
    assert rag.json(*_of(filled, "--yes"))["sources"] == [], "once more does nothing"
    listed = rag.json("sources", "--tenant", filled, "--bot", "b", "--status", "forgotten")["sources"]
    assert [source["name"] for source in listed] == ["pump.md"]
    (life,) = rag.json("sources", "--tenant", filled, "--bot", "b", "--show", "pump.md")["sources"]
    assert life["forgotten_at"]
    assert "--undo" in life["next_try"]
    assert rag.json("events", "--tenant", filled, "--bot", "b")["events"][0]["event"] == "forgotten"
    assert "forgotten" in rag("events", "--tenant", filled, "--bot", "b").stdout
    rag.json(*_of(filled, "--undo"))
    rag.json("ingest", "--tenant", filled, "--bot", "b")
    assert _found(rag, filled) == {"pump.md", "returns.txt"}
    assert rag.error(*_of(filled, "--undo"))[0] == "UsageError"


@pytest.mark.slow
def test_its_text_is_in_no_file_that_waits_between_two_stages(rag: Rag, documents: Path, tmp_path: Path) -> None:
    tenant = f"staged-{abs(hash(tmp_path)) % 10**9}"
    rag.json("ingest", str(documents), "--tenant", tenant, "--bot", "b", "--profile", "tiny")
    files = list((Path(load_settings().storage) / tenant).rglob("*.parquet"))
    assert any(b"PX-4412" in path.read_bytes() for path in files)
    assert rag.json(*_of(tenant, "--yes"))["staged_files"] == 2
    assert not any(b"PX-4412" in path.read_bytes() for path in files)
    assert any(b"Goods" in path.read_bytes() for path in files)


@pytest.mark.slow
def test_an_ingest_that_was_under_way_cannot_bring_its_text_back_for_good(
    rag: Rag, documents: Path, tmp_path: Path
) -> None:
    tenant = f"under-way-{abs(hash(tmp_path)) % 10**9}"
    rag.json("ingest", str(documents), "--tenant", tenant, "--bot", "b", "--profile", "tiny")
    written = next((Path(load_settings().storage) / tenant).rglob("chunks.parquet"))
    unfinished = written.with_name(".chunks-1.part")
    unfinished.write_bytes(written.read_bytes())
    (told,) = [one for one in rag.json(*_of(tenant, "--yes"))["stays"] if "an ingest is writing" in one]
    assert "1 file" in told
    assert "stays maybe in 1 file" in rag(*_of(tenant, "--yes")).stdout
    unfinished.replace(written)
    assert "it was in 1 staged file" in rag(*_of(tenant, "--yes")).stdout
    assert b"PX-4412" not in written.read_bytes()
    assert "stays" not in rag(*_of(tenant, "--yes")).stdout


def test_what_stays_is_told_with_its_place(rag: Rag, filled: str) -> None:
    told = rag(*_of(filled, "--yes")).stdout
    assert "stays in the database: their names" in told
    assert "stays in the embedding cache: vectors, without a text" in told
    assert "stays in Dagster's history of runs, the database dagster: previews" in told
    assert "--purge-history" in told


@pytest.mark.slow
def test_previews_in_the_history_of_runs_go_along_where_that_is_wanted(
    rag: Rag, documents: Path, tmp_path: Path
) -> None:
    tenant, word = f"history-{abs(hash(tmp_path)) % 10**9}", f"zq{abs(hash(tmp_path))}k"
    (documents / "pump.md").write_text(f"The {word} pump cuts in at 1.8 bar.\n")
    rag.json("ingest", str(documents), "--tenant", tenant, "--bot", "b", "--profile", "tiny")

    def previews() -> int:
        url = with_database(running_url(load_settings().home) or "", "dagster")
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT count(*) FROM event_logs WHERE strpos(event, %s) > 0", [word]).fetchone()
            return int(row[0]) if row else 0

    assert previews() > 0
    answer = rag.json(*_of(tenant, "--yes", "--purge-history"))
    assert (answer["dagster_runs"] > 0, previews()) == (True, 0)
    assert not any("Dagster" in one for one in answer["stays"])
    rag.json("ingest", "--tenant", tenant, "--bot", "b")
    assert _found(rag, tenant) == {"returns.txt"}


@pytest.mark.parametrize("name", ["faq.csv", "faq"])
def test_a_file_of_the_same_name_under_another_root_is_never_forgotten_along(
    rag: Rag, filled: str, documents: Path, tmp_path: Path, name: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for folder, answer in ((documents, "At nine."), (other, "At ten.")):
        (folder / "faq.csv").write_text(f"question,answer\nWhen does it open?,{answer}\nIs it far?,No.\n")
    database = Database.from_settings()
    add_root(database, filled, "b", str(other))
    ingest(database, filled, "b", "tiny")
    database.close()
    words = ("--tenant", filled, "--bot", "b", "--yes")
    kind, message = rag.error("forget", name, *words)
    assert (kind, "4 sources" in message) == ("UsageError", True)
    assert len(rag.json("forget", str(other / "faq.csv"), *words)["sources"]) == 2
    listed = rag.json("sources", "--tenant", filled, "--bot", "b", "--like", "faq")["sources"]
    assert {(one["root"], one["status"]) for one in listed} == {(str(other), "forgotten"), (str(documents), "ready")}
