"""Turn files into Markdown with markitdown, and print texts, CPU seconds and errors by path as one JSON object."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from markitdown import MarkItDown

ROUNDS = 3  # the first one loads what a kind of file needs; the best counts, here as in bench/coverage.py


def converted(converter: MarkItDown, path: Path) -> dict[str, object]:
    """The Markdown of a file, the CPU seconds it took, and why there is none."""
    text, error, times = "", "", []
    for _ in range(ROUNDS):
        started = time.process_time()
        try:
            text = converter.convert_local(path).markdown
        except Exception as failure:  # whatever a damaged file makes of it
            error = f"{type(failure).__name__}: {failure}"
        times.append(time.process_time() - started)
    return {"text": text, "seconds": min(times), "error": error}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    converter = MarkItDown(enable_plugins=False)
    print(json.dumps({str(path): converted(converter, path) for path in parser.parse_args().files}))


if __name__ == "__main__":
    main()
