"""Main text of web pages by readability-lxml: the texts by name and the pages a second, as one JSON object."""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import time
from pathlib import Path

import lxml.html
from readability import Document

ROUNDS = 3  # as in bench/parse.py
_BLOCKS = frozenset("blockquote br dd div dt figcaption h1 h2 h3 h4 h5 h6 li p pre section td th tr".split())


def main_text(page: str) -> str:
    """What it takes for the article, with a space where a block ends, so that no two words are welded."""
    try:
        summary = Document(page).summary(html_partial=True)
    except Exception:  # whatever a page makes of it: it found nothing then
        return ""
    if not summary.strip():
        return ""
    tree = lxml.html.fromstring(summary)
    for element in tree.iter():
        if element.tag in _BLOCKS:
            element.tail = " " + (element.tail or "")
    return tree.text_content()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    logging.getLogger("readability").setLevel(logging.CRITICAL)
    pages = {}
    for path in sorted(parser.parse_args().folder.glob("*.html.gz")):
        pages[path.name.removesuffix(".html.gz")] = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    times, texts = [], {}
    for _ in range(ROUNDS):
        started = time.perf_counter()
        texts = {name: main_text(page) for name, page in pages.items()}
        times.append(time.perf_counter() - started)
    print(json.dumps({"texts": texts, "pages_per_second": len(pages) / min(times)}))


if __name__ == "__main__":
    main()
