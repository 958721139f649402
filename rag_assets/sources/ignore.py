"""What is left out by its name alone, in folders and in object stores alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Container

HIDDEN = "hidden"
LOCK = "an editor's lock or temporary file"
DOWNLOAD = "a download that is not complete"
SYSTEM = "of the operating system"
PROGRAMS = "a folder that programs fill"

# Office: ~$x.docx, ~WRL0001.tmp; LibreOffice: .~lock.x.odt#; Emacs: #x#, x~, .#x; Vim: .x.swp, 4913.
_LOCK = re.compile(
    r"~\$.*|~WR[A-Z]\d+\.tmp|\.~lock\..*#|\.#.*|#.*#|.*~|4913|\..*\.sw[a-p]|.*\.(tmp|temp|sw[nop]|laccdb|idlk)",
    re.IGNORECASE | re.DOTALL,
)
_DOWNLOAD = re.compile(
    r".*\.(crdownload|part|partial|download|opdownload|filepart|aria2|icloud|!ut|!qb|bc!)", re.IGNORECASE | re.DOTALL
)
_SYSTEM = re.compile(
    r"thumbs\.db(:encryptable)?|ehthumbs(_vista)?\.db|desktop\.ini|\.ds_store|\._.*|icon\r|\$recycle\.bin|"
    r"system volume information|__macosx|lost\+found|@eadir|\.localized|\.directory",
    re.IGNORECASE | re.DOTALL,
)

_ALWAYS = frozenset(
    {"node_modules", "bower_components", "jspm_packages", "elm-stuff", "__pycache__", "__pypackages__", "site-packages"}
)
_TARGET_BESIDE = ("Cargo.toml", "pom.xml", "build.sbt")
_MARKERS = ("pyvenv.cfg", "CMakeCache.txt", "project.assets.json")
_TAG = "CACHEDIR.TAG"
_TAG_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"


def left_out_file(name: str) -> str | None:
    """Why a file of this name is not read, or None."""
    for pattern, reason in ((_LOCK, LOCK), (_DOWNLOAD, DOWNLOAD), (_SYSTEM, SYSTEM)):
        if pattern.fullmatch(name):
            return reason
    return HIDDEN if name.startswith(".") else None


def left_out_folder(name: str) -> str | None:
    """Why a folder of this name is not looked into, or None."""
    if _SYSTEM.fullmatch(name):
        return SYSTEM
    if name.startswith("."):
        return HIDDEN
    return DOWNLOAD if name.lower().endswith(".download") else None


def is_filled_by_programs(name: str, beside: Container[str]) -> bool:
    """Tell it by a folder's name and by what lies beside it: packages, byte code, what a compiler leaves."""
    return (
        name in _ALWAYS
        or name.endswith((".egg-info", ".dist-info"))
        or (name == "target" and any(one in beside for one in _TARGET_BESIDE))
    )


def is_marked_by_programs(inside: Container[str], read: Callable[[str, int], bytes]) -> bool:
    """Tell it by what lies in a folder: an environment of Python, a cache, what a build has configured.

    `read(name, limit)` gives the first bytes of a file in it.
    """
    if any(marker in inside for marker in _MARKERS):
        return True
    return _TAG in inside and read(_TAG, len(_TAG_SIGNATURE)) == _TAG_SIGNATURE
