"""A name that does not exist is told in the same words by every command, with what looks like it, and exit code 2."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from typer.core import TyperCommand

from rag_assets.errors import UnknownPath, UnknownTenant, alike_places, unknown, unknown_path
from rag_assets.ingest.pairs import enable_pair
from rag_assets.store.database import Database
from rag_assets.store.roots import add_root
from rag_assets.store.tenants import add_tenant
from tests.cli.conftest import PROFILE
from tests.support.command_line import Rag
from tests.support.command_lines import commands, kind_of, words_of, write_labelled

TYPOS = {"bot": "suport", "profile": "static-265"}
MEANT = {"bot": "support", "profile": "static-256"}
CREATING = {("profile add", "profile"), ("ingest", "tenant"), ("ingest", "bot"), ("eval import", "tenant"),
            ("eval import", "bot"), ("tenant add", "tenant"), ("tenant add", "bot")}  # fmt: skip


WALK = [
    pytest.param(name, command, parameter, kind, id=f"{name} {parameter.name}")
    for name, command in commands()
    for parameter in command.params
    if (kind := kind_of(parameter, name)) and (name, kind) not in CREATING
]


@pytest.fixture(scope="module")
def tenant(home: Path) -> str:
    """A tenant with the bot `support`, for which a profile is enabled and nothing is built."""
    from rag_assets.commands.session import ready_database
    from rag_assets.settings import Settings

    with ready_database(Settings(home=home, database_url=None)) as database:
        add_tenant(database, "wrong-names", "support")
        enable_pair(database, "wrong-names", "support", "static-128")
        add_root(database, "wrong-names", "support", ROOT)
    return "wrong-names"


def test_the_walk_meets_every_command_that_takes_a_name() -> None:
    assert len(WALK) > 40
    assert {"search", "promote", "plan", "eval gate", "profile retire", "usage", "erase"} <= {
        str(one.values[0]) for one in WALK
    }


@pytest.mark.parametrize(("name", "command", "parameter", "kind"), WALK)
def test_a_misspelt_name_is_told_with_the_one_that_was_meant(
    rag: Rag, tenant: str, tmp_path: Path, name: str, command: TyperCommand, parameter: click.Parameter, kind: str
) -> None:
    values = {"tenant": tenant, **MEANT}
    wrong = {"tenant": "wrong-nmaes", **TYPOS}[kind]
    right = values[kind]
    if kind == "profile" and name in ("eval report", "eval gate", "profile diff"):
        values["profile"] = "static-256"
    values["folder"] = str(write_labelled(tmp_path))
    words = words_of(name, command, values, parameter)
    place = [number for number, word in enumerate(words) if word == right]
    words[place[-1 if parameter.name in ("baseline", "second") else 0]] = wrong
    _, message = rag.error(*words)
    assert message.startswith(f"no {kind} '{wrong}'"), message
    assert f"did you mean '{right}'?" in message
    assert "Create" not in message
    assert "rag ingest" not in message


@pytest.mark.parametrize("kind", ["tenant", "bot", "profile"])
def test_a_name_that_resembles_none_is_told_with_the_way_out(rag: Rag, tenant: str, kind: str) -> None:
    values = {"tenant": tenant, "bot": "support", "profile": PROFILE} | {kind: "zzzzzzzz"}
    words = [word for name in ("tenant", "bot", "profile") for word in (f"--{name}", values[name])]
    _, message = rag.error("search", "x", *words)
    assert message.startswith(f"no {kind} 'zzzzzzzz'")
    assert "rag " in message


def test_a_profile_that_was_enabled_and_never_built_is_no_profile_that_is_built(rag: Rag, tenant: str) -> None:
    kind, message = rag.error("promote", "static-64", "--tenant", tenant, "--bot", "support")
    assert (kind, "built are: none" in message) == ("UnknownProfile", True)
    assert "static-128" not in message
    assert f"rag ingest --tenant {tenant} --bot support --profile static-64" in message


def test_a_path_that_does_not_exist_is_told_with_the_one_that_was_meant(rag: Rag, tenant: str, tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "few.tsv").touch()
    words = ("--tenant", tenant, "--bot", "support")
    for line in (
        ("ingest", str(tmp_path / "lables"), *words),
        ("eval", "import", str(tmp_path / "lables"), *words),
    ):
        kind, message = rag.error(*line)
        assert kind == "UnknownPath"
        assert f"did you mean '{tmp_path / 'labels'}'?" in message
    kind, message = rag.error("eval", "run", *words, "--qrels", str(tmp_path / "few.tsw"))
    assert (kind, message.startswith("no file ")) == ("UnknownPath", True)
    assert f"did you mean '{tmp_path / 'few.tsv'}'?" in message


def test_a_suggestion_repairs_the_part_of_a_path_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "handbook" / "de").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    error = unknown_path("handbok/de")
    assert isinstance(error, UnknownPath)
    assert str(error) == (
        f"no file or folder '{tmp_path}/handbok/de'; did you mean '{tmp_path}/handbook/de'? (typed as 'handbok/de')"
    )
    assert "mean" not in str(unknown_path("/nowhere/at/all"))


def test_no_other_tenant_is_listed() -> None:
    error = unknown("tenant", "acmee", ["acme", "umbra"], listed=False)
    assert isinstance(error, UnknownTenant)
    assert str(error) == "no tenant 'acmee'; did you mean 'acme'?"
    assert str(unknown("tenant", "zz", ["acme", "umbra"], listed=False, way_out="Go.")) == "no tenant 'zz'. Go."


def test_an_application_is_told_no_name_of_others(database: Database) -> None:
    from rag_assets.errors import UnknownBot
    from rag_assets.retrieval import open_scope

    add_tenant(database, "acme", "support")
    for tenant, bot in (("acmee", "support"), ("acme", "suport")):
        with pytest.raises(UnknownBot) as caught:
            open_scope(database, tenant, bot)
        assert not re.search(r"'(acme|support)'\?|there are", str(caught.value))


ABOVE = "/srv/knowledge/of/the/whole/company"  # so long that a part of it looks like nothing else
ROOT = f"{ABOVE}/handbook"
ADDING = ("profile", "add", "misspelt", "--provider", "hash", "--model", "hash", "--dimensions", "32")
NEAR = {
    "language": ((*ADDING, "--language", "englsh"), "no language 'englsh'; did you mean 'english'?"),
    "option": ((*ADDING, "--option", "taks=search"), "no option 'taks'; did you mean 'task'?"),
    "value of an option": ((*ADDING, "--option", "encoding_format=floot"), "did you mean 'float'?"),
    "strategy": ((*ADDING, "--chunking", "markdwon:400:0"), "no strategy 'markdwon'; did you mean 'markdown'?"),
    "option of a chunking": ((*ADDING, "--chunking", "token:99:0:tokenzier=x"), "did you mean 'tokenizer'?"),
    "unset": (("root", "set", ROOT, "--unset", "excldue"), "no option 'excldue' of a root; did you mean 'exclude'?"),
    "encoding": (("root", "set", ROOT, "--encoding", "utf-88"), "no encoding 'utf-88'; did you mean 'utf-8'"),
    "root shown": (("root", "show", "handbok"), f"no root 'handbok' of bot 'support' of tenant 'wrong-names'; did you "
                   f"mean '{ROOT}'?"),
    "root set": (("root", "set", ROOT.replace("srv", "svr"), "--gitignore"), f"did you mean '{ROOT}'?"),
    "root moved": (("root", "move", f"{ABOVE}/hanbook", "."), f"did you mean '{ROOT}'?"),
    "root confirmed": (("root", "confirm", "handbooks"), f"did you mean '{ROOT}'?"),
    "root removed": (("root", "remove", "company/hamdbok", "--yes"), f"did you mean '{ROOT}'?"),
    "mode": (("search", "x", "--mode", "hybird"), "did you mean 'hybrid'?"),
    "status": (("sources", "--status", "redy"), "did you mean 'ready'?"),
    "command": (("serch",), "no command 'serch' of rag; did you mean 'search'?"),
    "command of a group": (("root", "shwo"), "no command 'shwo' of rag root; did you mean 'show'?"),
    "command of other programs": (("root", "rm"), "no command 'rm' of rag root; did you mean 'remove'?"),
}  # fmt: skip


@pytest.mark.parametrize("kind", NEAR)
def test_whatever_is_chosen_from_names_tells_the_one_that_was_meant(rag: Rag, tenant: str, kind: str) -> None:
    words, said = NEAR[kind]
    if words[0] in ("root", "search", "sources") and len(words) > 2:
        words = (*words, "--tenant", tenant, "--bot", "support")
    _, message = rag.error(*words)
    assert said in message
    assert "Value error" not in message


def test_what_resembles_no_command_is_told_with_those_that_there_are(rag: Rag) -> None:
    _, message = rag.error("root", "zzzz")
    assert message.startswith("no command 'zzzz' of rag root; there are: confirm, list, move, remove, set, show. See:")


def test_a_root_that_only_lies_beside_another_is_not_taken_for_it() -> None:
    known = ["/srv/a/very/long/way/to/finance", "https://example.com/handbook/de", "/srv/handbook"]
    assert alike_places("/srv/a/very/long/way/to/research", known) == []
    assert alike_places("handbook", known) == ["/srv/handbook"]
    assert alike_places("https://exmaple.com/handbook/de", known) == ["https://example.com/handbook/de"]


def test_no_encoding_is_meant_that_makes_no_text(rag: Rag, tenant: str) -> None:
    for name in ("hex", "rot13", "base64", "nothing-like-it"):
        _, message = rag.error("root", "set", ROOT, "--encoding", name, "--tenant", tenant, "--bot", "support")
        assert message.startswith(f"no encoding '{name}'. Known are utf-8"), message
