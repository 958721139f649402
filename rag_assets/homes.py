"""Where the database and Dagster's records lie while nobody says so: with a project, or with a user."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_path

_FOLDER = ".rag"
_USER_FOLDER = "rag-assets"
_DATABASE = "postgres"


def usual_home() -> Path:
    """The home of the project that the working folder belongs to, as git finds its folder: a `.rag` there or in the
    nearest folder above; else the user's, if there is one; else the one that would be made in the working folder."""
    return next((home for home in looked_in() if home.is_dir()), Path.cwd() / _FOLDER)


def looked_in() -> list[Path]:
    """The homes that may be found from the working folder, in their order.

    One above the working folder counts only if it is this user's: anybody may put a folder into /tmp, and a server is
    started with what lies in a home.
    """
    here = Path.cwd()
    above = (folder / _FOLDER for folder in here.parents)
    return [here / _FOLDER, *(home for home in above if not home.exists() or _is_mine(home)), users_home()]


def users_home() -> Path:
    """The home that a user has beside those of projects; it is there once it was made."""
    return user_data_path(_USER_FOLDER)


def why_this(home: Path, *, is_named: bool) -> str | None:
    """What is to be known of a home that `usual_home` found, or that somebody has named: where it was found, and that
    it is not there yet."""
    if not home.is_dir():
        found = "" if is_named else "none was found in the working folder, above it, or with the user; "
        return f"{found}not there yet: made by `rag up` or the first `rag ingest PATH`"
    if is_named:
        return None
    if home == users_home():
        return "the user's own"
    return f"found {'in' if home.parent == Path.cwd() else 'above'} the working folder"


def has_database(home: Path) -> bool:
    """Whether an embedded server was ever started in this home."""
    return (home / _DATABASE).is_dir()


def usable_home(path: Path) -> Path:
    """`path` as an absolute one, if it is a folder or could be made as one.

    Raises:
        ValueError: it names an unknown user's folder, or a file is in the way.
    """
    try:
        home = path.expanduser().absolute()
    except RuntimeError as error:  # no such user
        raise ValueError(str(error)) from error
    nearest = next(folder for folder in (home, *home.parents) if folder.exists())
    if not nearest.is_dir():
        raise ValueError(f"{nearest} is no folder")
    return home


def _is_mine(path: Path) -> bool:
    return not hasattr(os, "geteuid") or path.stat().st_uid == os.geteuid()
