"""Web pages: the main content as visible text, with headings, lists, tables and code as blocks."""

from __future__ import annotations

import re

import trafilatura
from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode

from rag_assets.documents.building import TextBuilder, whole_file
from rag_assets.documents.model import BlockKind, Document, Record
from rag_assets.documents.names import charset, is_web
from rag_assets.documents.normalize import decode, normalize

_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
