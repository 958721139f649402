from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rag_assets.commands.search import citation_text, query_words, snippet

if TYPE_CHECKING:
    from tests.support.command_line import Rag

RESULT_KEYS = {
    "chunk_id", "source_id", "source_name", "score", "content", "citation", "dense_score", "lexical_score",
    "metadata", "space",
}  # fmt: skip


def _ask(tenant: str, query: str = "PX-4412 cut-in pressure") -> tuple[str, ...]:
    return ("search", query, "--tenant", tenant, "--bot", "b")


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_a_search_returns_cited_results_in_each_mode(rag: Rag, filled: str, mode: str) -> None:
    found = rag.json(*_ask(filled), "--mode", mode, "-k", "1")
    assert set(found) == {
        "query_id", "profile", "mode", "retriever", "rung", "timings_ms", "results", "degraded", "trace",
    }  # fmt: skip
    assert (found["profile"], found["mode"], found["degraded"]) == ("tiny", mode, None)
    assert set(found["timings_ms"]) == {"embed", "search", "total"}
    (result,) = found["results"]
    assert set(result) == RESULT_KEYS
    assert result["source_name"] == "pump.md"
    assert result["citation"]["heading"] == "Pump"
    assert 0 <= result["citation"]["start"] < result["citation"]["end"]


def test_a_person_sees_rank_score_source_citation_and_text(rag: Rag, filled: str) -> None:
    shown = rag(*_ask(filled, "PX-4412"), "-k", "1").stdout
    assert " 1. pump.md" in shown
    assert "Pump, characters 0–" in shown
    assert "The PX-4412 pump cuts in at 1.8 bar." in shown
    assert "1 result · hybrid · profile tiny" in shown


def test_an_empty_result_is_said_and_is_no_failure(rag: Rag, filled: str) -> None:
    asked = (*_ask(filled, "xylophone"), "--mode", "lexical")
    assert "no reliable source in this scope" in rag(*asked).stdout
    assert rag.json(*asked)["results"] == []


def test_a_document_cannot_steer_the_terminal(rag: Rag, filled: str, documents: object) -> None:
    from pathlib import Path

    from rag_assets.ingest.run import ingest
    from rag_assets.store.database import Database

    Path(str(documents), "evil.txt").write_text("harmless\x1b]0;owned\x07 xylophone [bold]not markup[/bold]\n")
    database = Database.from_settings()
    ingest(database, filled, "b", "tiny")
    database.close()
    shown = rag(*_ask(filled, "xylophone"), "--mode", "lexical").stdout
    assert "xylophone [bold]not markup[/bold]" in shown
    assert "\x1b]" not in shown
    assert "\x07" not in shown


@pytest.mark.parametrize(
    ("words", "kind", "part"),
    [
        (("search", "  ", "--tenant", "t", "--bot", "b"), "UsageError", "empty"),
        (("search", "--tenant", "t", "--bot", "b"), "UsageError", "query"),
        (("search", "x", "--bot", "b"), "UsageError", "--tenant"),
        (("search", "x", "--tenant", "t"), "UsageError", "--bot"),
        (("search", "x", "--tenant", "t", "--bot", "b", "-k", "0"), "UsageError", "-k"),
        (("search", "x", "--tenant", "t", "--bot", "b", "-k", "1001"), "UsageError", "1000"),
        (("search", "x", "--tenant", "t", "--bot", "b", "--mode", "fuzzy"), "UsageError", "fuzzy"),
        (("search", "x", "--tenant", "t", "--bot", "b", "--user", ""), "UsageError", "--user"),
        (("search", "x", "--tenant", "T", "--bot", "b"), "InvalidKey", "tenant"),
        (("search", "x", "--tenant", "t", "--bot", "b|c"), "InvalidKey", "bot"),
        (("search", "x", "--tenant", "t", "--bot", "b", "--profile", "P"), "InvalidKey", "profile"),
        (("search", "x", "--tenant", "nobody", "--bot", "b"), "UnknownTenant", "nobody"),
        (("sources", "--tenant", "nobody", "--bot", "b"), "UnknownTenant", "nobody"),
        (("sources", "--tenant", "a,b", "--bot", "b"), "InvalidKey", "tenant"),
        (("sources", "--tenant", "t"), "UsageError", "--bot"),
    ],
)
def test_wrong_use_ends_with_2_and_names_what_is_wrong(rag: Rag, words: tuple[str, ...], kind: str, part: str) -> None:
    found, message = rag.error(*words)
    assert found == kind
    assert part in message


def test_a_profile_that_is_not_built_is_a_failure_that_says_how_to_build_it(rag: Rag, filled: str) -> None:
    kind, message = rag.error(*_ask(filled), "--profile", "static-64", code=1)
    assert kind == "ProfileNotReady"
    assert "rag ingest" in message


def test_sources_are_listed_with_their_state(rag: Rag, filled: str) -> None:
    found = rag.json("sources", "--tenant", filled, "--bot", "b")
    assert found["counts"] == {"ready": 2}
    assert [source["name"] for source in found["sources"]] == ["pump.md", "returns.txt"]
    assert found["sources"][0]["profiles"]["tiny"]["status"] == "ready"
    shown = rag("sources", "--tenant", filled, "--bot", "b").stdout
    assert "returns.txt" in shown
    assert "2 sources under" in shown


def test_a_snippet_shows_the_part_that_holds_the_words() -> None:
    text = "filler " * 200 + "the PX-4412 cuts in at 1.8 bar " + "filler " * 200
    part = snippet(text, query_words("PX-4412 cuts"), width=100)
    assert "PX-4412 cuts in" in part
    assert part.startswith("… ")
    assert part.endswith(" …")
    assert len(part) <= 110
    assert snippet("short  text", []) == "short text"


@pytest.mark.parametrize(
    ("query", "written"), [("KX-772", "ＫＸ－７７２"), ("Conceicao", "Conceição"), ("환불", "환불은"), ("Łódź", "Lodz")]
)
def test_a_snippet_shows_words_that_are_written_otherwise(query: str, written: str) -> None:
    text = "filler " * 200 + f"the {written} cuts in " + "filler " * 200
    assert written in snippet(text, query_words(query), width=100)


def test_codes_and_text_without_spaces_count_as_words() -> None:
    assert query_words("What is PX-4412?") == ["what", "px-4412"]
    assert query_words("警告を") == ["警告", "告を"]


def test_a_citation_names_document_page_heading_and_characters() -> None:
    citation = {"document": "a.pdf", "page": 3, "page_end": 4, "heading": "Setup", "start": 5, "end": 9}
    assert citation_text(citation) == "a.pdf, pages 3–4, Setup, characters 5–9"
    assert citation_text({**citation, "page_end": 3}, "a.pdf") == "page 3, Setup, characters 5–9"
    others = [{"source_name": "b", "document": f"{name}.md"} for name in "bcdef"]
    assert citation_text({"page": 3, "also_at": others}) == "page 3, also in b.md, c.md, d.md and 2 more"


def test_a_record_is_cited_by_its_file_and_its_place_in_it() -> None:
    row = {"document": "2848b9e9" * 4, "file": "faq.csv", "place": "line 3", "start": 0, "end": 44}
    assert citation_text(row, "Open?") == "faq.csv, line 3, characters 0–44"
    assert citation_text({**row, "document": "q7"}, "Open?") == "faq.csv, line 3, q7, characters 0–44"
    member = {"document": "z.zip#in/a.pdf", "file": "z.zip", "place": "in/a.pdf", "page": 2}
    assert citation_text(member, "z.zip#in/a.pdf") == "page 2"


@pytest.mark.parametrize("place", ["event 1", "uid@example.com", "mail.ics, event 12"])
def test_a_citation_names_the_place_of_a_calendars_entry_once(place: str) -> None:
    entry = {"document": "uid@example.com", "file": "cal.ics", "place": place, "start": 0, "end": 9}
    assert citation_text(entry, "Board meeting") == f"cal.ics, {place}, characters 0–9"


def test_filters_choose_sources_on_the_command_line(rag: Rag, filled: str) -> None:
    found = rag.json(*_ask(filled), "--filter", "source=pump.md", "--filter", "content_type=text/markdown")["results"]
    assert {one["source_name"] for one in found} == {"pump.md"}
    assert rag.json(*_ask(filled), "--until", "2001-01-01")["results"] == []
    assert rag.json(*_ask(filled), "--since", "2001-01-01")["results"] != []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--filter", "contnet_type=text/markdown"), "did you mean 'content_type'"),
        (("--filter", "source>7"), "source has no order; write source=value"),
        (("--filter", "="), "write key=value"),
        (("--filter", "!tag"), "write key=value"),
        (("--since", "tomorrow"), "--since tomorrow: since must be a date like 2026-01-31"),
        (("--since", "2026-02-30"), "--since 2026-02-30: since must be a date"),
        (("--since", "2026-05-01", "--until", "2026-01-01"), "since must be before until"),
        (("--filter", "year>=banana"), "--filter year>=banana: 'where', 'year', 'gte' must be a number, or a date"),
    ],
)
def test_a_filter_that_is_misspelt_is_refused_on_the_command_line(
    rag: Rag, filled: str, words: tuple[str, ...], said: str
) -> None:
    assert said in rag.error(*_ask(filled), *words)[1]


def test_the_retriever_of_a_file_searches(rag: Rag, filled: str, tmp_path: Path) -> None:
    file = tmp_path / "diverse.toml"
    file.write_text('kind = "diverse"\nper_source = 1\n[retriever]\nkind = "lexical"\n')
    found = rag.json(*_ask(filled), "--retriever", str(file))
    assert (found["mode"], found["retriever"], found["rung"]) == (None, str(file), "full")
    assert [step["stage"] for step in found["trace"]] == ["diverse"]
    assert len(found["results"]) == len({one["source_id"] for one in found["results"]})
    file.write_text('kind = "divers"\n')
    assert "did you mean 'diverse'" in rag.error(*_ask(filled), "--retriever", str(file))[1]
    assert "--copies" in rag.error(*_ask(filled), "--retriever", str(file), "--copies")[1]
    assert "none.toml" in rag.error(*_ask(filled), "--retriever", str(tmp_path / "none.toml"))[1]
    with_mode = (*_ask(filled), "--retriever", str(file), "--mode", "dense")
    assert "--mode and --retriever exclude each other" in rag.error(*with_mode)[1]
    assert rag.error(*_ask(filled), "--retriever", str(tmp_path))[1].endswith("is no file, but a folder")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("source=pmup.md", "did you mean 'pump.md'?"),
        ("type=fil", "did you mean 'file'?"),
        ("tag=manual", "there are: none"),
    ],
)
def test_a_value_that_no_source_has_is_told_where_nothing_was_found(
    rag: Rag, filled: str, word: str, said: str
) -> None:
    asked = rag(*_ask(filled), "--filter", word)
    assert f"--filter {word}: no source of this bot has that; {said}" in asked.stderr
    assert "no source" not in rag(*_ask(filled), "--filter", "source=pump.md").stderr


def test_a_person_sees_what_further_stages_did(rag: Rag, filled: str, tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    reranked = '[retriever]\nkind = "hybrid"\n[reranker]\nkind = "bi_encoder"\nprofile = "static-64"\n'
    file.write_text(f'kind = "reranked"\ntau = 0.99\n{reranked}')
    shown = rag(*_ask(filled), "--retriever", str(file)).stdout
    assert "reranked 0." in shown
    assert "below tau left out" in shown
    file.write_text(
        'kind = "rewriting"\nsub_queries = 2\n[retriever]\nkind = "lexical"\n'
        '[chat]\nkind = "openai_chat"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    assert "rewrite: openai/m at 127.0.0.1 gave no answer" in rag(*_ask(filled), "--retriever", str(file)).stdout


def test_a_person_sees_the_path_that_led_to_a_passage(rag: Rag, filled: str, tmp_path: Path) -> None:
    triples, file = tmp_path / "triples.csv", tmp_path / "graph.toml"
    triples.write_text("subject,predicate,object,source\nPX-4412,cuts in at,1.8 bar,pump.md\n")
    rag("graph", "import", str(triples), "--tenant", filled, "--bot", "b")
    file.write_text('kind = "graph"\n[retriever]\nkind = "hybrid"\n')
    assert "by PX-4412 cuts in at 1.8 bar" in rag(*_ask(filled, "PX-4412"), "--retriever", str(file)).stdout
