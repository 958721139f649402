"""Light markup beside what its own program made of it: are the words that a reader sees found, and nothing else?

python -m bench.markup --documents FOLDER [--files 200] [--seed 0]

A source `a.rst.txt`, `a.adoc`, `a.txt` (AsciiDoc) or `a.tex` is compared with the `a.html` or `a.pdf` beside it, or
with the page whose `_sources` it lies in; what includes other files is left out. Words are counted as in
`bench.coverage`, of the text as it is parsed and of the file as it is written. PDFs are read by pdftotext. A manual
page, such as those of `--documents /usr/share/man`, is compared with what `man` writes.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import subprocess
from collections import Counter
from pathlib import Path

from lxml import html  # type: ignore[import-untyped]

from bench.common import show
from bench.coverage_readers import words
from rag_assets.documents.registry import parse

_KINDS = {".rst.txt": "a.rst", ".rst": "a.rst", ".adoc": "a.adoc", ".txt": "a.adoc", ".tex": "a.tex"}
_MANUAL = re.compile(r"man\d/[^/]+\.\d\w*(?:\.gz)?$")
_OVERSTRUCK = re.compile(".\x08")
_TERMINAL = {"PATH": "/usr/bin:/bin", "MANWIDTH": "1000", "LC_ALL": "C.UTF-8", "MANROFFOPT": "-c -rHY=0"}
_INCLUDES = re.compile(r"^include::|^\.so |\\(?:input|include|DocInput)\b", re.MULTILINE)
_NOT_TEXT = (
    "//script|//style|//*[@id='toc' or @id='footer' or contains(@class, 'headerlink') or "
    "contains(@class, 'toctree-wrapper')]"
)


def pairs(folder: Path) -> list[tuple[str, Path, Path]]:
    """The kind of each source that has been rendered, its file, and what was made of it."""
    found = []
    for path in sorted(folder.rglob("*")):
        if _MANUAL.search(str(path)) and path.is_file():
            found.append(("a.man", path, path))
            continue
        plain = path.name.removesuffix(".gz")
        ending = next((ending for ending in _KINDS if plain.endswith(ending)), None)
        if ending is None or not path.is_file():
            continue
        stem = Path(str(path.parent).replace("/_sources", "")) / plain.removesuffix(ending)
        rendered = next((file for end in (".html", ".pdf") if (file := Path(f"{stem}{end}")).exists()), None)
        if rendered is not None:
            found.append((_KINDS[ending], path, rendered))
    return found


def source_text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")


def reference(path: Path) -> Counter[str]:
    """The words that a reader of the page, PDF or manual page sees."""
    if _MANUAL.search(str(path)):
        shown = subprocess.run(["man", "-Tutf8", "-l", str(path)], capture_output=True, env=_TERMINAL, check=False)
        return Counter(words(_OVERSTRUCK.sub("", shown.stdout.decode("utf-8", "replace"))))
    if path.suffix == ".pdf":
        read = subprocess.run(["pdftotext", str(path), "-"], capture_output=True, check=False)
        return Counter(words(read.stdout.decode("utf-8", "replace")))
    root = html.parse(str(path)).getroot()
    for element in root.xpath(_NOT_TEXT):
        element.drop_tree()
    body = root.xpath('//div[@class="body"]') or [root.find("body")]
    return Counter(words(body[0].text_content()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, required=True)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chosen = pairs(arguments.documents)
    random.Random(arguments.seed).shuffle(chosen)
    sums: dict[tuple[str, str], Counter[str]] = {}
    for kind, path, rendered in chosen[: arguments.files]:
        text = source_text(path)
        expected = reference(rendered)
        if _INCLUDES.search(text) or not expected:
            continue
        parsed = "\n".join(record.document.text for record in parse(text.encode(), kind) if record.document)
        for how, found in (("parsed", Counter(words(parsed))), ("as written", Counter(words(text)))):
            total = sums.setdefault((kind.removeprefix("a."), how), Counter())
            total += Counter(files=1, both=(found & expected).total(), expected=expected.total(), found=found.total())
    rows = [
        [kind, how, total["files"], total["both"] / total["expected"], total["both"] / total["found"]]
        for (kind, how), total in sorted(sums.items())
    ]
    show(str(arguments.documents), ["kind", "", "files", "coverage", "precision"], rows)


if __name__ == "__main__":
    main()
