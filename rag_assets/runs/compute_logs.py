"""Where Dagster keeps what the steps of a run print."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from dagster._core.execution.compute_logs import redirect_to_file
from dagster._core.storage.compute_log_manager import CapturedLogContext, ComputeIOType
from dagster._core.storage.local_compute_log_manager import IO_TYPE_EXTENSION, LocalComputeLogManager
from dagster._serdes import ConfigurableClassData
from dagster._utils import ensure_file, touch_file


class FileComputeLogs(LocalComputeLogManager):
    """Files in the folder `storage` under `base_dir`, which the UI shows: where Dagster has them by default.

    Dagster also copies them to the terminal, by four processes for each run, which stay where the run is killed.

    Attributes:
        are_copied: whether they are; not where nobody sits at the terminal, as in the runs of the daemon.
    """

    are_copied: ClassVar[bool] = True

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        return cls(str(Path(config_value["base_dir"]) / "storage"), inst_data=inst_data)

    @contextmanager
    def capture_logs(self, log_key: Sequence[str]) -> Iterator[CapturedLogContext]:
        if self.are_copied:
            with super().capture_logs(log_key) as captured:
                yield captured
            return
        out, err = (
            self.get_captured_local_path(log_key, IO_TYPE_EXTENSION[kind])
            for kind in (ComputeIOType.STDOUT, ComputeIOType.STDERR)
        )
        for path in (out, err):
            ensure_file(path)
        with redirect_to_file(sys.stdout, out), redirect_to_file(sys.stderr, err):
            yield CapturedLogContext(log_key)
        touch_file(self.complete_artifact_path(log_key))  # type: ignore[no-untyped-call]  # tells the UI that it is all
