"""A folder of documents in which every module that we could import lies as well, and tells when it ran, and a `.env`
that would have processes look for modules there."""

from __future__ import annotations

import sys
from importlib.metadata import packages_distributions
from pathlib import Path

OURS = ("rag_assets", "evals", "gql", "sitecustomize", "usercustomize")


class HostileFolder:
    """`path` is the folder."""

    def __init__(self, path: Path) -> None:
        self.path, self._hits = path, path.with_name(f"{path.name}-hits")
        path.mkdir()
        self._hits.mkdir()
        text = f"open({str(self._hits)!r} + '/' + __name__, 'w').close()\nraise SystemExit('a document ran')\n"
        for name in {*sys.stdlib_module_names, *packages_distributions(), *OURS}:
            if name.isidentifier():
                (path / f"{name}.py").write_text(text)
        (path / ".env").write_text(f"PYTHONPATH={path}\nPYTHONHOME={path}\nDAGSTER_HOME={path}\n")

    def ran(self) -> list[str]:
        """The modules of this folder that some process has imported."""
        return sorted(hit.name for hit in self._hits.iterdir())
