"""What the runs of this project print."""

from __future__ import annotations

from typing import Any

import dagster as dg


@dg.configured(
    dg.colored_console_logger,
    {"log_level": dg.Field(str, default_value="INFO", description="The least severe level that is shown.")},
)
def console(config: dict[str, Any]) -> dict[str, Any]:
    """Dagster's console without its own events, which come by the dozen for each run; the UI has them all."""
    return {"log_level": config["log_level"], "name": "rag"}
