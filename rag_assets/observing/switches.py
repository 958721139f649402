"""What the settings say of observing, read once in a process."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from threading import Lock

from rag_assets.errors import UsageError
from rag_assets.settings import Settings, load_settings

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Switches:
    """What is told; `mask` are the patterns beyond the usual ones of what is masked in a query."""

    tenants_in_metrics: bool = True
    query_texts: bool = False
    search_log: bool = False
    query_log: bool = False
    mask: tuple[str, ...] = ()

    @property
    def any_log(self) -> bool:
        return self.search_log or self.query_log


def _of(settings: Settings) -> Switches:
    return Switches(
        settings.metrics_tenants,
        settings.trace_queries,
        settings.search_log,
        settings.query_log,
        settings.query_log_mask,
    )


class _Known:
    value: Switches | None = None
    lock = Lock()


def switches() -> Switches:
    """What the environment said when the first search of this process asked."""
    known = _Known.value
    return known if known is not None else _read()


def _read() -> Switches:
    with _Known.lock:
        if _Known.value is None:
            try:
                _Known.value = _of(load_settings())
            except UsageError as error:  # of a library, whose searches need no setting
                _log.warning("nothing is told of searches: %s", error)
                _Known.value = Switches()
        return _Known.value


def switch(settings: Settings | None) -> None:
    """Go by other settings from now on; None: by the environment, when the next search asks."""
    _Known.value = None if settings is None else _of(settings)
