"""What an office file says about itself: title, author, dates, language."""

from __future__ import annotations

import re
from typing import Any

from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.office.package import Package
from rag_assets.documents.parsers.safe_xml import Element, local, whole_text

# What programs write into the title when nobody gave one.
_NO_TITLE = re.compile(
    r"(microsoft (office )?(word|powerpoint|excel)( - .*)?|powerpoint[- ]pr\w+|pr\w+ powerpoint|word document|"
    r"untitled\d*|slide 1|document\d*|book\d*|presentation\d*)",
    re.IGNORECASE,
)
_KEPT = {
    "creator": "author",
    "initial-creator": "author",
    "subject": "subject",
    "description": "description",
    "keywords": "keywords",
    "keyword": "keywords",
    "created": "created",
    "creation-date": "created",
    "modified": "modified",
    "date": "modified",
}


def core_properties(package: Package) -> dict[str, Any]:
    """Return the `title`, `language` and `metadata` fields of a document from OOXML's core properties."""
    for path in (*package.related("", "core-properties"), "docProps/core.xml"):
        root = package.xml(path)
        if root is not None:
            return facts(root)
    return {"title": "", "language": None, "metadata": {}}


def facts(root: Element) -> dict[str, Any]:
    """Return the `title`, `language` and `metadata` fields that the children of `root` give."""
    values: dict[str, str] = {}
    for element in root:
        text = normalize(whole_text(element))
        if text:
            values.setdefault(local(element), text)
    metadata: dict[str, Any] = {}
    for name, key in _KEPT.items():
        if name in values:
            metadata.setdefault(key, values[name])
    return {
        "title": real_title(values.get("title", "")),
        "language": language_code(values.get("language", "")),
        "metadata": metadata,
    }


def real_title(title: str) -> str:
    """Return a title, or `""` where it is one that a program made up."""
    title = " ".join(title.split())
    return "" if _NO_TITLE.fullmatch(title) else title


def language_code(tag: str) -> str | None:
    """Return the two-letter code of a language tag such as `en-US`, or None."""
    code = re.split("[-_]", tag.strip())[0].lower()
    return code if re.fullmatch("[a-z]{2}", code) else None
