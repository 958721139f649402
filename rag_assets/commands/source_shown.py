"""The life of a source, told in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from rag_assets.commands.shell import printable
from rag_assets.printing import counted

_WIDTH = 10  # columns of a step's name


def show_life(console: Console, life: Mapping[str, Any]) -> None:
    """Print each step of a source's life on a line."""
    console.print(Text.assemble((printable(life["name"]), "bold cyan"), f"  {life['status'].replace('_', ' ')}"))
    for step, said in _steps(life):
        console.print(Text(f"  {step:<{_WIDTH}}{printable(said)}"), soft_wrap=True)
    console.print()


def _steps(life: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    place = f", {life['place']}" if life["place"] else ""
    yield "in", f"{life['file']}{place}, under {life['root'] or 'no root'}"
    yield "id", str(life["source_id"])
    yield "seen", _seen(life)
    yield "read", _read(life)
    yield "parsed", _parsed(life)
    if life["error"]:
        stage = "publish" if life["failed_stage"] == "publish" else "read"
        yield "failed", f"to {stage}, {_time(life['updated_at'])}: {life['error']}"
    for profile in life["profiles"]:
        yield "published" if profile["status"] == "ready" else "pending", _published(profile)
    yield "next", life["next_try"]


def _seen(life: Mapping[str, Any]) -> str:
    if life["held_since"]:
        return f"not since {_time(life['held_since'])}: too much went at once to be believed, so it is kept"
    if life["missing_since"]:
        return f"not since {_time(life['missing_since'])}: a part of its file cannot be read, and may be it"
    if life["root_error"]:
        return f"the root was looked at {_time(life['root_scanned_at'])}: {life['root_error']}"
    due = f", and is looked for again {_time(life['next_scan_at'])}" if life["next_scan_at"] else ""
    return f"{_time(life['root_scanned_at'])}{due}"


def _read(life: Mapping[str, Any]) -> str:
    if life["bytes"] is None:
        return "not now: it could not be read, or is to be read again"
    return f"{_time(life['read_at'])}, {counted(life['bytes'], 'byte')}, by parser version {life['parser_version']}"


def _parsed(life: Mapping[str, Any]) -> str:
    if life["characters"] is None:
        return "no text" if life["status"] == "no_text" else "no document"
    parts = [counted(life["characters"], "character"), life["content_type"], life["locale"], life["title"]]
    parts += [f"{name.replace('_', ' ')} {_plain(value)}" for name, value in sorted(life["quality"].items())]
    if life["versions"] > 1:
        parts.append(f"{counted(life['versions'], 'version')} kept")
    return ", ".join(str(part) for part in parts if part)


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _published(profile: Mapping[str, Any]) -> str:
    name = f"{profile['profile']}{' (active)' if profile['profile_status'] == 'active' else ''}: "
    if profile["status"] != "ready":
        said = f"failed {_time(profile['updated_at'])}" if profile["status"] == "failed" else "not yet"
    elif profile["duplicate_of"]:
        said = f"{_time(profile['updated_at'])}, as a repetition of {profile['duplicate_of']}"
    else:
        state = "up to date" if profile["up_to_date"] else "an older version"
        said = (
            f"{counted(profile['chunks'], 'chunk')} cut, embedded and published {_time(profile['updated_at'])}, {state}"
        )
    if profile["waits_for"]:
        said += f"; waits for batch job {profile['waits_for']}"
    return f"{name}{said}{': ' + profile['error'] if profile['error'] else ''}"


def _time(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else "at a time that was not written down"
