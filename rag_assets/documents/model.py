"""The values that pass between parsers, chunkers and the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from rag_assets.documents.words import count_tokens

BlockKind = Literal["heading", "paragraph", "code", "table", "list", "question", "answer", "page"]


@dataclass(frozen=True)
class Block:
    """A structural part of a document: `document.text[start:end]`, in code points, 0-based, half open."""

    kind: BlockKind
    start: int
    end: int
    heading_path: tuple[str, ...] = ()
    page: int | None = None  # 1-based


@dataclass(frozen=True)
class Document:
    """The normalised text of one source; all offsets of chunks and blocks refer to `text`.

    `text` holds no NUL, no lone surrogate and no carriage return, and is NFC. `metadata["quality"]` says what the
    parser met on the way: see `rag_assets.documents.quality`.
    """

    text: str
    title: str = ""
    content_type: str = "text/plain"
    language: str | None = None  # ISO 639-1 where known
    canonical_url: str | None = None
    blocks: tuple[Block, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, init=False)
class Chunk:
    """A passage of a document: `document.text[start:end] == content`, always."""

    index: int
    content: str
    start: int
    end: int
    page: int | None = None  # 1-based page of the first character
    page_end: int | None = None
    heading_path: tuple[str, ...] = ()
    context: str = ""  # what a model reads in front of the content: title, headings, a table's header row

    def __init__(
        self,
        index: int,
        content: str,
        start: int,
        end: int,
        page: int | None = None,
        page_end: int | None = None,
        heading_path: tuple[str, ...] = (),
        context: str = "",
    ) -> None:
        # What a frozen dataclass generates takes three times as long, which is a fifth of the time of chunking.
        # Defaults are read from the class.
        fields = self.__dict__
        fields["index"] = index
        fields["content"] = content
        fields["start"] = start
        fields["end"] = end
        if page is not None or page_end is not None or heading_path or context:
            fields["page"] = page
            fields["page_end"] = page_end
            fields["heading_path"] = heading_path
            fields["context"] = context

    @cached_property
    def token_count(self) -> int:
        """Words and punctuation marks of the content. Counted when asked for: that takes as long as the cutting."""
        return count_tokens(self.content)


@dataclass(frozen=True)
class Media:
    """A file that some models can embed as such: its content type, and the number of its pages."""

    content_type: str
    pages: int = 1


@dataclass(frozen=True)
class Record:
    """One source found in a file: the file itself (`key == ""`), or a record of a collection file.

    `status` is `ready` with a document, `no_text` where it was read and holds no text,
    or `failed` with an error that names the line, page or reason. `media` is set for a PDF or a picture, whether it
    holds text or not.

    `part` is the file inside the file that holds the record, `""` for the file itself: its names from the outside in,
    joined by `#`; `key` begins with it. `place` says where in that part the record stands: `line 3`.

    A failed record may hide the version before of what has its key, or a key below it. One that `hides_others` may be
    any record of its part that is not there now; `checksum` is that of what could not be read, so that what was as
    unreadable before is known to hide nothing that could be read then.
    """

    key: str
    name: str
    status: Literal["ready", "no_text", "failed"]
    document: Document | None = None
    error: str | None = None
    source_type: str = "file"  # file, faq, record, page
    media: Media | None = None
    part: str = ""
    place: str = ""
    hides_others: bool = False
    checksum: str = ""


def embedding_text(context: str, content: str) -> str:
    """What a model reads of a chunk: its context, where it has one, a blank line, and its content."""
    return f"{context}\n\n{content}" if context else content
