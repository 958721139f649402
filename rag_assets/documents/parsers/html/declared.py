"""What a web page declares of itself for search engines: whether it is an article, and the article's text."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser

_ARTICLE_META = "meta[property='og:type'][content=article], meta[property^='article:published']"
_ARTICLE_TYPES = re.compile(r"(?:Blog|LiveBlog|SocialMedia)Posting|(?:\w*News|Satirical|Scholarly)?Article|Report")
_JSON_LD = "script[type='application/ld+json']"
_JSON_TYPE = re.compile(r'"@type"\s*:\s*\[?\s*"(\w+)"')
# By pattern, since one stray comma elsewhere makes the whole of it no JSON.
_JSON_BODY = re.compile(r'"articleBody"\s*:\s*("[^"\\]*+(?:\\.[^"\\]*+)*+")', re.DOTALL)
_TAG = re.compile(r"<[^<>]*+>")


@dataclass(frozen=True)
class Declared:
    """Whether the page says that it is an article, and the text that its JSON-LD gives (`articleBody`), if any."""

    is_article: bool
    body: str


def declared(tree: LexborHTMLParser) -> Declared:
    """Read Open Graph, schema.org's microdata, and JSON-LD."""
    data = [node.text() for node in tree.css(_JSON_LD)]
    return Declared(
        _is_article(tree, data), "\n".join(_body(found) for text in data for found in _JSON_BODY.findall(text))
    )


def _is_article(tree: LexborHTMLParser, data: list[str]) -> bool:
    if tree.css_first(_ARTICLE_META) is not None:
        return True
    types = [
        (node.attributes.get("itemtype") or "").rpartition("/")[2] for node in tree.css("[itemtype*='schema.org']")
    ]
    for text in data:
        types += _JSON_TYPE.findall(text)
    return any(_ARTICLE_TYPES.fullmatch(kind) for kind in types)


def _body(quoted: str) -> str:
    try:
        return html.unescape(_TAG.sub(" ", str(json.loads(quoted, strict=False))))
    except ValueError:  # a code point that JSON does not know how to write
        return ""
