"""A root that lies somewhere else now keeps its sources; one that goes takes along what no other root has."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from rag_assets.errors import RootMoved, UsageError
from rag_assets.ingest.plan import Demand, make_plan
from rag_assets.ingest.roots import confirm_loss, count_removed, find_root, move_root, remove_root
from rag_assets.ingest.run import IngestReport, ingest
from rag_assets.retrieval import LexicalRetriever, open_scope
from rag_assets.sources.options import RootOptions
from rag_assets.store.database import Database
from rag_assets.store.erase import erase
from rag_assets.store.roots import Root, add_root, list_roots
from tests.support.worlds import HASH_PROFILE, ingested, rewrite, write_files

FILES = {
    "a.md": "The red pump.",
    "über uns/b c.md": "The blue valve.",
    "x.jsonl": '{"id": "1", "text": "Hose."}\n{"id": "2", "text": "Lamp."}',
}


def again(database: Database, *roots: Path, **flags: bool) -> IngestReport:
    return ingest(database, "acme", "support", "hash-64", roots, **flags)


def root_of(database: Database, uri: Path | str) -> Root:
    with database.work("acme") as connection:
        return find_root(connection, "acme", "support", str(uri))


def roots(database: Database) -> list[str]:
    with database.work("acme") as connection:
        return [root.uri for root in list_roots(connection, "acme", "support")]


def stored(database: Database) -> dict[str, tuple[str, str]]:
    """External id -> id and label of each source."""
    with database.work("acme") as connection:
        rows = connection.execute(
            "SELECT external_id, id::text, metadata ->> 'doc_id' FROM rag.knowledge_sources WHERE status <> 'deleted'"
        )
        return {row[0]: (row[1], row[2]) for row in rows}


def served(database: Database) -> list[str]:
    with database.work("acme") as connection:
        return [row[0] for row in connection.execute("SELECT content FROM rag.knowledge_chunks ORDER BY content")]


def chunk_ids(database: Database) -> set[str]:
    with database.work("acme") as connection:
        return {str(row[0]) for row in connection.execute("SELECT id FROM rag.knowledge_chunks")}


def test_a_moved_folder_keeps_ids_labels_and_chunks_and_nothing_is_embedded_again(
    database: Database, root: Path
) -> None:
    ingested(database, root, "acme", FILES)
    before, chunks = stored(database), chunk_ids(database)
    new = root.rename(root.parent / "new place")
    moved = move_root(database, root_of(database, root), str(new))
    assert (moved.files, moved.missing, moved.sources, moved.replaced) == (3, 0, 4, 0)
    after = stored(database)
    assert set(after.values()) == set(before.values())
    assert all(place.startswith(new.as_uri()) for place in after)
    report = again(database)
    assert (report.sources.unchanged, report.sources.bytes_read, report.embeddings.embedded) == (4, 0, 0)
    assert (chunk_ids(database), roots(database)) == (chunks, [str(new)])
    rewrite(new / "a.md", "The green pump.")
    report = again(database)
    assert (report.sources.changed, report.publication.chunks_written) == (1, 1)
    assert set(stored(database).values()) == set(before.values()), "a new version is of the same source"


def test_a_new_root_with_the_files_of_one_that_is_gone_is_offered_as_a_move(database: Database, root: Path) -> None:
    ingested(database, root, "acme", FILES)
    new = root.rename(root.parent / "new")
    with pytest.raises(RootMoved, match=f"rag root move {root} {new} --tenant acme --bot support") as raised:
        again(database, new)
    assert "--as-new" in str(raised.value)
    assert (roots(database), len(served(database))) == ([str(root)], 4)
    again(database, new, as_new=True)
    assert (roots(database), len(served(database))) == ([str(root), str(new)], 8)


def test_a_copy_of_a_root_that_is_still_there_is_a_new_root(database: Database, root: Path) -> None:
    ingested(database, root, "acme", FILES)
    copy = Path(shutil.copytree(root, root.parent / "copy"))
    again(database, copy)
    assert roots(database) == [str(root), str(copy)]


@pytest.mark.parametrize("files", [{"a.md": "Other text."}, {"other.md": "The red pump."}, {}])
def test_other_files_are_no_moved_root(database: Database, root: Path, files: dict[str, str]) -> None:
    ingested(database, root, "acme", FILES)
    shutil.rmtree(root)
    other = root.parent / "other"
    other.mkdir()
    again(database, write_files(other, files))
    assert roots(database) == [str(root), str(other)]


def test_a_root_that_was_read_a_second_time_at_its_new_place_becomes_one_again(database: Database, root: Path) -> None:
    ingested(database, root, "acme", FILES)
    before = stored(database)
    new = root.rename(root.parent / "new")
    write_files(new, {"more.md": "Only at the new place."})
    again(database, new, as_new=True)
    moved = move_root(database, root_of(database, root), str(new))
    assert (moved.files, moved.replaced, roots(database)) == (3, 4, [str(new)])
    assert len(served(database)) == 5
    assert set(before.values()) < set(stored(database).values())
    report = again(database)
    assert (report.sources.changes, report.embeddings.embedded, len(served(database))) == (0, 0, 5)


def test_a_new_root_at_the_place_that_another_one_has_left_has_sources_of_its_own(
    database: Database, root: Path
) -> None:
    ingested(database, root, "acme", FILES)
    new = root.rename(root.parent / "new")
    move_root(database, root_of(database, root), str(new))
    again(database, write_files(root, {name: f"{text} " for name, text in FILES.items()}))
    assert (len(stored(database)), len(served(database))) == (8, 8)
    assert len({key for key, _ in stored(database).values()}) == 8
    for folder in (root, new):
        rewrite(folder / "a.md", f"In {folder.name} something else.")
    again(database)
    assert {text for text in served(database) if "something else" in text} == {
        "In root something else.",
        "In new something else.",
    }


def test_a_place_with_nothing_of_the_root_is_no_move_and_nothing_is_changed(database: Database, root: Path) -> None:
    ingested(database, root, "acme", FILES)
    other = write_files(root.parent / "other", {"z.md": "Something."})
    with pytest.raises(UsageError, match="none of 3 files"):
        move_root(database, root_of(database, root), str(other))
    assert (roots(database), len(served(database))) == ([str(root)], 4)


def test_a_file_that_was_left_behind_is_gone_at_the_next_scan(database: Database, root: Path) -> None:
    ingested(database, root, "acme", FILES)
    new = root.rename(root.parent / "new")
    (new / "a.md").unlink()
    assert move_root(database, root_of(database, root), str(new)).missing == 1
    assert (again(database).sources.deleted, len(served(database))) == (1, 3)


def test_a_plan_after_a_move_finds_nothing_to_do(database: Database, root: Path) -> None:
    ingested(database, root, "acme", FILES)
    new = root.rename(root.parent / "new")
    move_root(database, root_of(database, root), str(new))
    rewrite(new / "x.jsonl", '{"id": "1", "text": "Hose."}\n{"id": "2", "text": "Torch."}')
    plan = make_plan(database, "acme", "support", [], Demand(database, "acme", HASH_PROFILE))
    assert (plan.new, plan.changed, plan.gone, plan.work.sources, plan.work.to_embed) == (0, 1, 0, 1, 1)


def test_a_bot_whose_root_was_moved_is_erased_whole(database: Database, root: Path) -> None:
    ingested(database, root, "acme", FILES)
    new = root.rename(root.parent / "new")
    move_root(database, root_of(database, root), str(new))
    again(database)
    assert not any(erase(database, "acme").remaining.values())


def test_a_removed_root_is_withdrawn_at_once_and_not_scanned_again(database: Database, root: Path) -> None:
    ingested(database, root, "acme", FILES)
    other = write_files(root.parent / "other", {"c.md": "Lamps."})
    again(database, other)
    found = root_of(database, root)
    assert (count_removed(database, found), len(served(database))) == (4, 5)
    assert remove_root(database, found) == 4
    assert (roots(database), served(database)) == ([str(other)], ["Lamps."])
    scope = open_scope(database, "acme", "support")
    assert not [hit for hit in LexicalRetriever(database).search("pump", scope) if "pump" in hit.content]
    assert again(database).sources.changes == 0
    report = again(database, root)
    assert (report.sources.changed, report.embeddings.embedded, len(served(database))) == (4, 0, 5)


@pytest.mark.parametrize("inner_first", [False, True])
@pytest.mark.parametrize("removed", ["outer", "inner"])
def test_a_root_inside_another_one_keeps_what_it_has_when_either_goes(
    database: Database, root: Path, removed: str, inner_first: bool
) -> None:
    outer, inner = root, root / "sub"
    write_files(root, {"a.md": "The red pump.", "sub/b.md": "The blue valve.", "sub/deep/c.md": "Lamps."})
    ingested(database, inner if inner_first else outer, "acme", {})
    again(database, outer if inner_first else inner)
    keys = stored(database)
    remove_root(database, root_of(database, outer if removed == "outer" else inner))
    kept = ["Lamps.", "The blue valve."] + (["The red pump."] if removed == "inner" else [])
    assert served(database) == kept
    report = again(database)
    assert (report.sources.changes, report.embeddings.embedded, served(database)) == (0, 0, kept)
    assert set(stored(database).items()) <= set(keys.items())


def test_what_two_roots_share_is_gone_when_it_is_gone_from_both(database: Database, root: Path) -> None:
    write_files(root, {"a.md": "The red pump.", "sub/b.md": "The blue valve."})
    ingested(database, root, "acme", {})
    again(database, root / "sub")
    again(database)
    (root / "sub" / "b.md").unlink()
    assert (again(database).sources.deleted, served(database)) == (1, ["The red pump."])


def test_a_root_that_cannot_be_read_at_its_first_use_is_not_remembered(database: Database, root: Path) -> None:
    ingested(database, root, "acme", FILES)
    report = ingest(database, "acme", "support", "hash-64", ["az://nothing/here"])
    assert report.sources.forgotten_roots == ["az://nothing/here"]
    assert [failure.name for failure in report.sources.unreadable_roots] == ["az://nothing/here"]
    assert roots(database) == [str(root)]
    away = root.rename(root.parent / "away")
    assert again(database).sources.forgotten_roots == []
    assert roots(database) == [str(root)], "one that was read once stays"
    away.rename(root)


def test_options_are_remembered_with_the_root_and_changed_one_by_one(database: Database, root: Path) -> None:
    ingested(database, root, "acme", FILES)
    add_root(database, "acme", "support", str(root), {"exclude": ("*.tmp",), "gitignore": True})
    add_root(database, "acme", "support", str(root), {"encoding": "cp1252"})
    add_root(database, "acme", "support", str(root))
    wanted = RootOptions(exclude=("*.tmp",), gitignore=True, encoding="cp1252")
    assert root_of(database, root).options == wanted


def test_the_failures_of_unchanged_files_are_named_as_often_as_they_are_counted(database: Database, root: Path) -> None:
    ingested(database, root, "acme", {"a.md": "The pump."})
    for n in range(3):
        (root / f"{n}.pdf").write_bytes(b"%PDF-1.7 and then nothing")
    for _ in range(3):
        report = again(database).sources
        assert (report.failed, sorted(failure.name for failure in report.failures)) == (3, ["0.pdf", "1.pdf", "2.pdf"])
        assert all(failure.error for failure in report.failures)


@pytest.mark.parametrize("seed", range(3))
def test_after_any_changes_what_is_served_is_what_lies_under_the_roots(
    database: Database, tmp_path: Path, seed: int
) -> None:
    """Files come and go, folders move, roots are moved, removed and added: two or three of each a round."""
    dice = random.Random(seed)
    folders = [write_files(tmp_path / f"r{n}", {"keep.md": f"Kept in {n}."}) for n in range(2)]
    ingested(database, folders[0], "acme", {})
    again(database, folders[1])
    number = 0
    for _ in range(8):
        action = dice.choice(["write", "write", "delete", "empty", "move", "remove", "add"])
        folder = dice.choice(folders) if folders else None
        if folder is None or (action == "add" and len(folders) < 4):
            number += 1
            folders.append(write_files(tmp_path / f"new{number}", {f"{n}.md": f"New {number} {n}." for n in range(12)}))
            again(database, folders[-1])
            continue
        if action == "write":
            number += 1
            write_files(folder, {f"sub{number % 2}/w{number}.md": f"Written {number}."})
        elif action == "delete":
            next(folder.rglob("*.md")).unlink(missing_ok=True) if any(folder.rglob("*.md")) else None
        elif action == "empty":
            for path in folder.rglob("*.md"):
                path.unlink()
            again(database)
            confirm_loss(database, root_of(database, folder))
        elif action == "move" and any(folder.rglob("*.md")):
            again(database)
            number += 1
            new = folder.rename(tmp_path / f"moved{number}")
            move_root(database, root_of(database, folder), str(new))
            folders[folders.index(folder)] = new
        elif action == "remove":
            remove_root(database, root_of(database, folder))
            folders.remove(folder)
    again(database)
    there = sorted(path.read_text() for folder in folders for path in folder.rglob("*.md"))
    assert served(database) == there
    report = again(database)
    assert (report.sources.changes, report.embeddings.embedded, report.publication.chunks_written) == (0, 0, 0)
