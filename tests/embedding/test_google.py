from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfWriter

from rag_assets.embedding.protocol import Caller
from rag_assets.embedding.providers.google import build
from rag_assets.embedding.providers.google_texts import Cutter, Role
from rag_assets.embedding.registry import embedder_for
from rag_assets.errors import InvalidProfile, TextRefused
from tests.support.google_server import (
    Gate,
    GoogleServer,
    embed_with_usage,
    error,
    google_embedder,
    google_profile,
    google_server,
    rows,
    unit_vectors,
)

PREFIX = "title: none | text: "
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
JPEG = b"\xff\xd8\xff\xe0" + bytes(40)


def pdf(pages: int) -> bytes:
    writer, target = PdfWriter(), io.BytesIO()
    for _ in range(pages):
        writer.add_blank_page(200, 200)
    writer.write(target)
    return target.getvalue()


def test_three_texts_are_three_contents_and_three_unit_vectors_in_their_order(server: GoogleServer) -> None:
    with google_embedder() as embedder:
        embedded = embedder.embed_documents(["first", "second", "third"])
    assert embedded.vectors.dtype == np.float32
    sent = [PREFIX + text for text in ("first", "second", "third")]
    assert np.allclose(embedded.vectors, unit_vectors(sent, 768), atol=1e-6)
    assert [len(item["content"]["parts"]) for item in server.embeds[0].items] == [1, 1, 1]


def test_the_registry_builds_the_embedder(server: GoogleServer) -> None:
    embedder = embedder_for(google_profile())
    assert embedder.model_key == google_profile().model_key
    assert embedder.batch_items == 100
    assert server.arrived == [], "nothing is sent, and no key is needed, before something is to be embedded"


def test_no_texts_need_no_request(server: GoogleServer) -> None:
    with google_embedder() as embedder:
        embedded = embedder.embed_documents([])
    assert embedded.vectors.shape == (0, 768)
    assert server.arrived == []


@pytest.mark.parametrize(
    ("task", "prefix", "task_type"),
    [
        ("search", "task: search result | query: ", "RETRIEVAL_QUERY"),
        ("question answering", "task: question answering | query: ", "QUESTION_ANSWERING"),
        ("fact checking", "task: fact checking | query: ", "FACT_VERIFICATION"),
        ("code retrieval", "task: code retrieval | query: ", "CODE_RETRIEVAL_QUERY"),
    ],
)
def test_model_2_is_told_the_task_in_the_text_and_model_001_in_a_field(
    server: GoogleServer, task: str, prefix: str, task_type: str
) -> None:
    for model in ("gemini-embedding-2", "gemini-embedding-001"):
        with google_embedder(google_profile(model, options={"task": task})) as embedder:
            embedder.embed_documents(["doc"])
            embedder.embed_query("ask")
    sent = [(arrived.texts[0], arrived.items[0].get("taskType")) for arrived in server.embeds]
    assert sent == [(PREFIX + "doc", None), (prefix + "ask", None), ("doc", "RETRIEVAL_DOCUMENT"), ("ask", task_type)]


def test_a_profiles_own_instruction_takes_the_place_of_the_prefix(server: GoogleServer) -> None:
    with google_embedder(google_profile(task_instruction={"query": "Q: ", "document": ""})) as embedder:
        embedder.embed_documents(["doc"])
        embedder.embed_query("ask")
    assert [arrived.texts for arrived in server.embeds] == [["doc"], ["Q: ask"]]


@pytest.mark.parametrize("model", ["gemini-embedding-2", "gemini-embedding-001"])
@pytest.mark.parametrize("dimensions", [128, 768, 3072])
def test_the_dimensions_are_always_sent_and_the_vectors_have_unit_length(
    server: GoogleServer, model: str, dimensions: int
) -> None:
    with google_embedder(google_profile(model, dimensions)) as embedder:
        vectors = embedder.embed_query("ask").vectors
    assert server.embeds[0].items[0]["outputDimensionality"] == dimensions
    assert vectors.shape == (1, dimensions)
    assert np.linalg.norm(vectors) == pytest.approx(1, abs=1e-6)


def test_the_address_names_the_pinned_version_and_the_timeout_is_sent(server: GoogleServer) -> None:
    with google_embedder() as embedder:
        embedder.embed_query("ask")
    assert server.embeds[0].path == "/v1beta/models/gemini-embedding-2:batchEmbedContents"
    assert server.embeds[0].headers["x-server-timeout"] == "30"


def test_250_texts_are_three_requests_and_each_passes_the_gate_with_its_items(server: GoogleServer) -> None:
    texts, gate = [f"text {number}" for number in range(250)], Gate()
    with google_embedder() as embedder:
        vectors = embedder.embed_documents(texts, Caller(gate=gate)).vectors
    assert [len(arrived.items) for arrived in server.embeds] == [100, 100, 50]
    assert [items for items, _ in gate.asked] == [100, 100, 50]
    assert set(server.sent.values()) == {1}
    assert np.allclose(vectors, unit_vectors([PREFIX + text for text in texts], 768), atol=1e-6)


def test_requests_stay_below_3_mb_of_json_whatever_the_script(server: GoogleServer) -> None:
    texts = ["日本語" * 900 + str(number) for number in range(250)]  # 8.1 kB of UTF-8, 16.2 kB of JSON
    with google_embedder() as embedder:
        embedder.embed_documents(texts)
    assert len(server.embeds) == 3
    emoji = ["🙂" * 2000 + str(number) for number in range(250)]  # 8 kB of UTF-8, 24 kB of JSON
    with google_embedder(google_profile(task_instruction={"document": "x" * 40})) as embedder:
        embedder.embed_documents(emoji)
    assert max(arrived.size for arrived in server.embeds) < 3_000_000
    with google_embedder(google_profile(dimensions=128)) as embedder:
        embedder.embed_documents(["\x01" * 8000 + str(number) for number in range(100)])  # 48 kB of JSON each
    assert max(arrived.size for arrived in server.embeds) < 3_000_000
    assert set(server.sent.values()) == {1}


def test_usage_is_what_the_provider_says_and_tagged_with_the_caller(server: GoogleServer) -> None:
    server.script.append(embed_with_usage(1_000_000))
    with google_embedder() as embedder:
        usage = embedder.embed_documents(["a", "b"], Caller("acme", "faq")).usage
    assert (usage.tenant, usage.bot, usage.items, usage.tokens) == ("acme", "faq", 2, 1_000_000)
    assert usage.cost_usd == pytest.approx(0.20)


def test_usage_is_estimated_where_the_provider_says_nothing(server: GoogleServer) -> None:
    gate = Gate()
    with google_embedder() as embedder:
        usage = embedder.embed_documents(["x" * 80, "y" * 81], Caller(gate=gate)).usage
    assert usage.tokens == 25 + 26, "bytes / 4 with the prefix of 20 bytes"
    assert gate.asked == [(2, 51)]
    assert usage.cost_usd == pytest.approx(51 * 0.20 / 1e6)


def test_tenant_and_bot_change_no_vector_and_are_not_sent(server: GoogleServer) -> None:
    with google_embedder() as embedder:
        one = embedder.embed_documents(["text"], Caller("acme", "faq")).vectors
        two = embedder.embed_documents(["text"], Caller("globex", "shop")).vectors
    assert one.tobytes() == two.tobytes()
    assert server.embeds[0].body == server.embeds[1].body
    assert "acme" not in str(server.embeds[0])


def test_a_query_does_not_queue_at_the_gate(server: GoogleServer) -> None:
    gate = Gate()
    with google_embedder() as embedder:
        embedder.embed_query("ask", Caller(gate=gate))
    assert gate.asked == []


@pytest.mark.parametrize("texts", [[" "], ["good", ""], ["a\ud800"]])
def test_a_text_that_nobody_can_embed_costs_no_request(server: GoogleServer, texts: list[str]) -> None:
    with google_embedder() as embedder, pytest.raises(TextRefused):
        embedder.embed_documents(texts)
    assert server.arrived == []


SHORT = {"max_input_tokens": 64}


def test_a_text_too_long_for_the_model_is_the_weighted_mean_of_its_pieces(server: GoogleServer) -> None:
    long = " ".join(f"w{number}" for number in range(100))
    with google_embedder(google_profile(options=SHORT)) as embedder:
        embedded = embedder.embed_documents(["before", long, "after"])
    sent = server.embeds[0].texts
    pieces = sent[1:-1]
    assert "".join(piece.removeprefix(PREFIX) for piece in pieces) == long, "nothing is lost, nothing is cut in a word"
    assert all(len(piece.encode()) <= 64 for piece in pieces)
    units = unit_vectors(sent, 768)
    mean = np.average(units[1:-1], axis=0, weights=[len(piece) - len(PREFIX) for piece in pieces])
    assert np.allclose(embedded.vectors, [units[0], mean / np.linalg.norm(mean), units[-1]], atol=1e-6)
    assert embedded.usage.items == len(sent), "every piece is paid for"


def test_a_long_text_is_counted_and_stays_whole_if_it_fits(server: GoogleServer) -> None:
    text = "internationalisation " * 10  # 210 bytes, 16 tokens with the prefix
    with google_embedder(google_profile(options=SHORT)) as embedder:
        embedder.embed_documents([text, "short enough to be safe unread"])
    assert len(server.counts) == 1
    assert server.counts[0].body["contents"][0]["parts"] == [{"text": PREFIX + text}]
    assert server.embeds[0].texts[0] == PREFIX + text


def test_a_query_is_cut_without_being_counted_and_an_endless_one_refused(server: GoogleServer) -> None:
    with google_embedder(google_profile(options=SHORT)) as embedder:
        assert embedder.embed_query("internationalisation " * 10).vectors.shape == (1, 768)
        with pytest.raises(TextRefused, match="too long"):
            embedder.embed_query("word " * 1000)
    assert server.counts == []
    assert len(server.embeds) == 1


def test_where_tokens_cannot_be_counted_a_long_text_is_cut_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    route = ("POST", ".*:countTokens", error(404, "NOT_FOUND"))
    with google_server(monkeypatch, route) as server, google_embedder(google_profile(options=SHORT)) as embedder:
        embedder.embed_documents(["internationalisation " * 10])
    assert len(server.embeds[0].items) > 1


def test_a_hopelessly_long_text_is_not_sent_to_be_counted(server: GoogleServer) -> None:
    with google_embedder(google_profile(options=SHORT)) as embedder:
        embedder.embed_documents(["word " * 400])
    assert server.counts == []


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=300), st.integers(8, 40))
def test_pieces_fit_and_lose_nothing_but_blanks(text: str, room: int) -> None:
    pieces = Cutter(room + 2, Role("> ", None)).pieces(text)
    assert all(len(piece.encode()) <= room for piece in pieces)
    if len(text.encode()) > room:
        assert all(piece.strip() for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_a_limit_that_the_prefix_alone_fills_is_refused() -> None:
    with pytest.raises(InvalidProfile, match="leaves no room"):
        build(google_profile(options={"max_input_tokens": 8}))


@pytest.mark.parametrize(
    ("data", "mime_type", "tokens"),
    [(PNG, "image/png", 258), (JPEG, "image/jpeg", 258), (pdf(1), "application/pdf", 258),
     (pdf(6), "application/pdf", 6 * 258)],
)  # fmt: skip
def test_images_and_small_pdfs_are_embedded_as_such_without_a_task(
    server: GoogleServer, data: bytes, mime_type: str, tokens: int
) -> None:
    gate = Gate()
    with google_embedder() as embedder:
        embedded = embedder.embed_media(data, mime_type, Caller("acme", "faq", gate))
    (item,) = server.embeds[0].items
    (part,) = item["content"]["parts"]
    inline: dict[str, Any] = part.get("inlineData") or part["inline_data"]
    assert mime_type in inline.values()
    assert "taskType" not in item
    assert embedded.vectors.shape == (1, 768)
    assert (embedded.usage.tenant, embedded.usage.items, embedded.usage.tokens) == ("acme", 1, tokens)
    assert embedded.usage.cost_usd == pytest.approx(tokens * 0.45 / 1e6)
    assert gate.asked == [(1, tokens)]


@pytest.mark.parametrize(
    ("data", "mime_type", "reason"),
    [
        (pdf(7), "application/pdf", "7 pages"),
        (b"%PDF-1.7 rubbish", "application/pdf", "cannot be counted"),
        (PNG, "image/jpeg", "no image/jpeg"),
        (b"", "image/png", "no image/png"),
        (b"GIF89a", "image/gif", "does not embed image/gif"),
        (PNG + bytes(3_000_000), "image/png", "too many"),
    ],
)
def test_media_that_the_model_would_not_read_costs_no_request(
    server: GoogleServer, data: bytes, mime_type: str, reason: str
) -> None:
    with google_embedder() as embedder, pytest.raises(TextRefused, match=reason):
        embedder.embed_media(data, mime_type)
    assert server.arrived == []


def test_the_text_only_model_refuses_media(server: GoogleServer) -> None:
    with google_embedder(google_profile("gemini-embedding-001")) as embedder, pytest.raises(TextRefused):
        embedder.embed_media(PNG, "image/png")
    assert server.arrived == []


def test_media_without_values_in_an_answer_with_status_200_is_an_error(server: GoogleServer) -> None:
    server.script.append(rows(lambda right: [None]))
    with google_embedder() as embedder, pytest.raises(Exception, match="no vector for text 0 of 1"):
        embedder.embed_media(PNG, "image/png")
    assert len(server.embeds) == 1


def test_eight_threads_share_one_embedder_and_nobody_gets_anothers_vectors(server: GoogleServer) -> None:
    texts = [[f"thread {thread} text {number}" for number in range(20)] for thread in range(8)]
    with google_embedder() as embedder, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda own: embedder.embed_documents(own).vectors, texts * 3))
    for own, vectors in zip(texts * 3, answers, strict=True):
        assert np.allclose(vectors, unit_vectors([PREFIX + text for text in own], 768), atol=1e-6)
    assert set(server.sent.values()) == {3}


def test_an_embedder_that_was_closed_opens_again(server: GoogleServer) -> None:
    with google_embedder() as embedder:
        embedder.embed_query("ask")
        embedder.close()
        embedder.embed_query("ask")
    assert len(server.embeds) == 2
