"""The command line as a test calls it, in its own process."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from rag_assets.cli import app

# Runs a command line and tells on stderr whether Dagster was loaded by it.
WATCHED = """
import sys
from rag_assets.cli import app
try:
    app(sys.argv[1:])
finally:
    loaded = any(name.partition(".")[0] == "dagster" for name in sys.modules)
    print("dagster loaded:", loaded, file=sys.stderr)
"""


class Rag:
    """Runs `rag` in this process."""

    def __call__(self, *words: str, code: int = 0, answer: str | None = None) -> Any:
        """The result of one command line, which must end with `code`."""
        result = CliRunner().invoke(app, list(words), input=answer)
        assert result.exit_code == code, f"{result.exit_code}: {result.stdout}{result.stderr}"
        return result

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        """The one JSON object on stdout."""
        value = json.loads(self(*words, "--json", code=code).stdout)
        assert isinstance(value, dict)
        return value

    def error(self, *words: str, code: int = 2) -> tuple[str, str]:
        """Type and message of the failure, the same in words on stderr as in JSON on stdout."""
        found = self.json(*words, code=code)["error"]
        spoken = self(*words, code=code)
        assert spoken.stdout == ""
        assert f"Error: {found['message'].splitlines()[0]}" in spoken.stderr
        assert "Traceback" not in spoken.stderr
        return found["type"], found["message"]
