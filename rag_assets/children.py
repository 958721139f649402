"""The one place that starts further processes of Python.

What lies in the folder that a command is run in is somebody's documents, and not code: a `json.py` there must not be
imported. Python looks there first unless it is told not to, in every process anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from typing import Any, TypeAlias

PRIVATE = 0o077  # what a process of ours lets others do with the files that it makes: nothing
_SAFE_PATH = "PYTHONSAFEPATH"
_PLAIN = (
    "PATH", "HOME", "TMPDIR", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONHOME", "OMP_NUM_THREADS", "TESSDATA_PREFIX",
)  # fmt: skip

Child: TypeAlias = subprocess.Popen[bytes]


def start_python(*arguments: str, environment: Mapping[str, str], **more: Any) -> Child:
    """Start this interpreter with `arguments`, so that neither it nor what it starts imports from its working folder.

    `more` is Popen's.

    Raises:
        OSError: it could not be started.
    """
    command = [sys.executable, "-P", *arguments]
    return subprocess.Popen(command, env=isolated(environment), umask=PRIVATE, **more)


def isolated(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` for a process that may start others of Python, with the way that it starts them.

    An empty part of `PYTHONPATH`, as in `PYTHONPATH=$UNSET:/lib`, means the working folder and goes.
    """
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(os.path.abspath(part) for part in given if part)
    kept = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    return {**kept, _SAFE_PATH: "1", **({"PYTHONPATH": path} if path else {})}


def call_of_main(module: str, *numbers: int) -> list[str]:
    """Arguments for `start_python`: call `main(*numbers)` of a module, imported from where this process would."""
    program = (
        "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
        f"from {module} import main; main(*map(int, sys.argv[2:]))"
    )
    return ["-c", program, json.dumps(import_path()), *map(str, numbers)]


def plain_environment(*more: str) -> dict[str, str]:
    """Of this process's environment, what a child that needs no secret may see, and the variables `more`."""
    return {name: os.environ[name] for name in (*_PLAIN, *more) if name in os.environ}


def import_path() -> list[str]:
    """Where this process imports from, for a child that needs the same modules; the standard library comes first, so
    that nothing takes its place in the child."""
    standard = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    standard |= {os.path.join(folder, "lib-dynload") for folder in standard}
    entries = [os.path.abspath(entry) for entry in sys.path]
    return sorted(entries, key=lambda entry: entry not in standard)
