"""Markdown: the text as it is written, without what is never shown, with its blocks and front matter."""

from __future__ import annotations

import re
from typing import Any

import yaml

from rag_assets.documents.building import whole_file
from rag_assets.documents.decoding import decode
from rag_assets.documents.model import Document, Record
from rag_assets.documents.names import charset
from rag_assets.documents.normalize import clean_json, normalize
from rag_assets.documents.parsers.markdown_blocks import markdown_blocks
from rag_assets.documents.parsers.markdown_unseen import without_unseen
from rag_assets.documents.quality import figures

_FRONT_MATTER = re.compile(r"---[^\S\n]*\n(.*?\n)?(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)", re.DOTALL)
_MAX_FRONT_MATTER = 64 * 1024  # characters
# libyaml takes linear time and ends at 1,000 levels, where the one in Python takes minutes.
_Loader: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_markdown(data: bytes, name: str, content_type: str | None) -> list[Record]:
    """Parse Markdown; front matter goes to metadata. Raises ParseError for binary content."""
    decoded = decode(data, charset(content_type))
    front, text = split_front_matter(normalize(decoded))
    text = without_unseen(text)
    blocks = tuple(markdown_blocks(text))
    first = next((block.heading_path[-1] for block in blocks if block.kind == "heading"), "")
    language = _text(front.pop("lang", None)) or _text(front.pop("language", None))
    if _text(front.get("id")):
        front["doc_id"] = _text(front.pop("id"))
    document = Document(
        text=text,
        title=_text(front.pop("title", None)) or first,
        content_type="text/markdown",
        language=language or None,
        canonical_url=_text(front.get("canonical_url")) or None,
        blocks=blocks,
        metadata=figures(front, characters_in=len(decoded)),
    )
    return whole_file(document, name)


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return YAML front matter as plain JSON, and the text after it.

    What is no YAML mapping, or uses aliases (which can expand without bound), is no front matter and stays
    in the text.
    """
    match = _FRONT_MATTER.match(text)
    if not match or match.end() > _MAX_FRONT_MATTER:
        return {}, text
    source = match.group(1) or ""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(source, Loader=_Loader)):
            return {}, text
        front = yaml.load(source, Loader=_Loader)  # nosec B506: a safe loader
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text
    if not isinstance(front, dict):
        return {}, text
    return clean_json(front), text[match.end() :].lstrip("\n")


def _text(value: Any) -> str:
    return str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
