"""Each strategy's parts, put together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rag_assets.chunking.context import Context
from rag_assets.chunking.outline import Outline
from rag_assets.chunking.recursive import recursive_spans
from rag_assets.chunking.spec import ChunkingSpec
from rag_assets.chunking.walk import Span, window_spans
from rag_assets.documents.blank import is_blank
from rag_assets.documents.model import Chunk, Document
from rag_assets.errors import InvalidArgument

if TYPE_CHECKING:
    from rag_assets.chunking.strategies import Cutting


def chunk_document(document: Document, spec: ChunkingSpec) -> list[Chunk]:
    """Divide a document into chunks of at most `spec.size` characters or tokens.

    `document.text[c.start:c.end] == c.content` for every chunk. Starts and ends strictly increase, no chunk
    is blank (see `is_blank`) or begins or ends with white space, and every character that is seen is in a chunk: in
    exactly one where the overlap is 0. A chunk begins at most `spec.overlap` before the end of the last one, and
    at a heading without any overlap. No chunk begins or ends within what is shown as one character, unless that
    alone is larger than the size.

    - `recursive`: as large as allowed, cut where the text is divided best: page, block, line, sentence, word.
    - `character`, `token`: as large as allowed, wherever that ends; `token` at the end of a word where one is near.
    - `sentence`, `paragraph`: as many whole ones as fit. What sentences repeat are whole sentences.
    - `markdown`: a section with all that is nested in it where that fits; else its parts, small siblings together.
    - `faq`: a question with its answer, and never two; what is neither, as `paragraph` would.
    - `code`: functions and classes whole where they fit, small neighbours together, by the syntax tree. What is
      no code in a known language, as `markdown` would.
    - `hybrid`: questions, code or sections, whichever the document has, and pieces under a quarter of the size joined.

    All but the first two keep tables and code blocks whole where they fit, and cut those that do not between
    lines; `recursive` does neither. `Chunk.context` holds what `spec.context_header` asks for, and but for
    `recursive` without it, the header row of a table or the question that the chunk continues.

    Raises:
        InvalidArgument: an argument is of the wrong kind.
        TokenizerUnavailable: the tokenizer cannot be loaded.
    """
    if not isinstance(document, Document):
        raise InvalidArgument(f"document must be a Document, got {type(document).__name__}", "document")
    if not isinstance(spec, ChunkingSpec):
        raise InvalidArgument(f"spec must be a ChunkingSpec, got {type(spec).__name__}", "spec")
    outline = Outline(document.blocks)
    if spec.strategy == "recursive":
        return _recursive(document, outline, spec)
    from rag_assets.chunking.strategies import choose_cutting  # syntax trees take 50 ms to import

    cutting = choose_cutting(document, outline, spec)
    spans = window_spans(document.text, cutting.ruler, cutting.cutter)
    return _chunks(document, outline, spans, _context(document, outline, spec, cutting))


def _recursive(document: Document, outline: Outline, spec: ChunkingSpec) -> list[Chunk]:
    text = document.text
    spans = recursive_spans(text, outline, spec.size, spec.overlap)
    if spec.context_header:
        return _chunks(document, outline, spans, _context(document, outline, spec, None))
    return _chunks(document, outline, spans, None)


def _context(document: Document, outline: Outline, spec: ChunkingSpec, cutting: Cutting | None) -> Context:
    questions, code = (cutting.questions, cutting.code) if cutting else ([], None)
    return Context(document, outline, spec.context_header, questions, code)


def _chunks(document: Document, outline: Outline, spans: Iterable[Span], context: Context | None) -> list[Chunk]:
    text, page, headings = document.text, outline.page, outline.headings
    if not text.isascii():
        spans = (span for span in spans if not is_blank(text[slice(*span)]))
    if context is not None:
        return [
            Chunk(n, text[i:j], i, j, page(i), page(j - 1), headings(i), context.of(i, j))
            for n, (i, j) in enumerate(spans)
        ]
    if outline.has_pages:
        return [Chunk(n, text[i:j], i, j, page(i), page(j - 1), headings(i)) for n, (i, j) in enumerate(spans)]
    if outline.has_headings:
        return [Chunk(n, text[i:j], i, j, None, None, headings(i)) for n, (i, j) in enumerate(spans)]
    return [Chunk(n, text[i:j], i, j) for n, (i, j) in enumerate(spans)]
