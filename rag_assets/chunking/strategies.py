"""What each strategy but the default one is put together from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rag_assets.chunking.outline import Outline
from rag_assets.chunking.questions import QuestionAnswer, find_questions, question_sections
from rag_assets.chunking.sentences import sentence_starts
from rag_assets.chunking.spec import ChunkingSpec
from rag_assets.chunking.structure import BoundaryCutter, Interior, StructureCutter, heading_sections
from rag_assets.chunking.syntax import CodeOutline, code_outline
from rag_assets.chunking.tokenizers import DEFAULT_TOKENIZER, load_counter
from rag_assets.chunking.tokens import Tokens
from rag_assets.chunking.walk import CharacterCutter, Characters, Cutter, Ruler, WordCutter
from rag_assets.documents.building import paragraphs
from rag_assets.documents.model import Document

_LEAST = 4  # a piece smaller than this part of the size goes on into what follows, where a strategy joins at all
_CHARACTERS_PER_TOKEN = 4  # about; decides only how far a syntax tree is opened


@dataclass(frozen=True)
class Cutting:
    """How one document is cut, and what is known of it for the context of its chunks."""

    ruler: Ruler
    cutter: Cutter
    questions: list[QuestionAnswer] = field(default_factory=list)
    code: CodeOutline | None = None


def choose_cutting(document: Document, outline: Outline, spec: ChunkingSpec) -> Cutting:
    """Return what the strategy makes of a document. Raises TokenizerUnavailable."""
    ruler: Ruler = Characters(spec.size, spec.overlap)
    if spec.unit == "tokens":
        counter = load_counter(spec.tokenizer or DEFAULT_TOKENIZER)
        ruler = Tokens(document.text, counter, spec.size, spec.overlap)
    return _STRATEGIES[spec.strategy](document, outline, spec, ruler)


def _character(document: Document, outline: Outline, spec: ChunkingSpec, ruler: Ruler) -> Cutting:
    return Cutting(ruler, CharacterCutter(document.text, ruler))


def _token(document: Document, outline: Outline, spec: ChunkingSpec, ruler: Ruler) -> Cutting:
    return Cutting(ruler, WordCutter(document.text, ruler))


def _sentence(document: Document, outline: Outline, spec: ChunkingSpec, ruler: Ruler) -> Cutting:
    interior = Interior(document.text, outline, ruler)
    return Cutting(ruler, BoundaryCutter(interior, sentence_starts(document.text, outline), whole_overlap=True))


def _paragraph(document: Document, outline: Outline, spec: ChunkingSpec, ruler: Ruler) -> Cutting:
    interior = Interior(document.text, outline, ruler)
    divided = outline if outline.blocks else Outline((*document.blocks, *paragraphs(document.text)))
    boundaries = sorted({offset for offsets in divided.divisions for offset in offsets})
    return Cutting(ruler, BoundaryCutter(interior, boundaries, whole_overlap=False))


def _markdown(document: Document, outline: Outline, spec: ChunkingSpec, ruler: Ruler) -> Cutting:
    interior = Interior(document.text, outline, ruler)
    return Cutting(ruler, StructureCutter(interior, heading_sections(outline)))


def _faq(document: Document, outline: Outline, spec: ChunkingSpec, ruler: Ruler) -> Cutting:
    questions = find_questions(document.text, outline)
    interior = Interior(document.text, outline, ruler)
    return Cutting(
        ruler, StructureCutter(interior, question_sections(document.text, outline, questions), merge=False), questions
    )


def _code(document: Document, outline: Outline, spec: ChunkingSpec, ruler: Ruler) -> Cutting:
    return _of_code(document, outline, spec, ruler) or _markdown(document, outline, spec, ruler)


def _of_code(document: Document, outline: Outline, spec: ChunkingSpec, ruler: Ruler) -> Cutting | None:
    size = spec.size if spec.unit == "characters" else spec.size * _CHARACTERS_PER_TOKEN
    code = code_outline(document, size)
    if code is None:
        return None
    interior = Interior(document.text, outline, ruler)
    return Cutting(ruler, StructureCutter(interior, code.sections, least=spec.size // _LEAST), code=code)


def _hybrid(document: Document, outline: Outline, spec: ChunkingSpec, ruler: Ruler) -> Cutting:
    if any(block.kind == "question" for block in outline.blocks):
        return _faq(document, outline, spec, ruler)
    if (cutting := _of_code(document, outline, spec, ruler)) is not None:
        return cutting
    interior = Interior(document.text, outline, ruler)
    return Cutting(ruler, StructureCutter(interior, heading_sections(outline), least=spec.size // _LEAST))


_Build = Callable[[Document, Outline, ChunkingSpec, Ruler], Cutting]
_STRATEGIES: dict[str, _Build] = {
    "character": _character,
    "token": _token,
    "sentence": _sentence,
    "paragraph": _paragraph,
    "markdown": _markdown,
    "faq": _faq,
    "code": _code,
    "hybrid": _hybrid,
}
