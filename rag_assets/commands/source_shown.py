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
_VISIBLE = {"bot": "to all users of the bot", "tenant": "to all bots of the tenant"}
_PUBLISHING = {"ready": "published", "failed": "failed"}


def show_life(console: Console, life: Mapping[str, Any]) -> None:
    """Print each step of a source's life on a line."""
    console.print(Text.assemble((printable(life["name"]), "bold cyan"), f"  {life['status'].replace('_', ' ')}"))
    for step, said in _steps(life):
        console.print(Text(f"  {step:<{_WIDTH}}{printable(said)}"), soft_wrap=True)
    console.print()


def visible_to(source: Mapping[str, Any]) -> str:
    """Who sees a source, in a word or two."""
    return f"user {source['user']}" if source["visibility"] == "user" else str(source["visibility"])


def _steps(life: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What has happened and what will; of a step that was not reached there is nothing to say."""
    error, place = life["error"], f", {life['place']}" if life["place"] else ""
    yield "in", f"{life['file']}{place}, under {life['root'] or 'no root'}"
    yield "id", str(life["source_id"])
    yield "visible", _VISIBLE.get(life["visibility"]) or f"to user {life['user']} alone"
    yield "seen", _seen(life)
    if life["bytes"] is not None:
        yield "read", f"{_time(life['read_at'])}, {counted(life['bytes'], 'byte')}, by parser {life['parser_version']}"
    elif not error:
        yield "read", "not now: it could not be read, or is to be read again"
    if life["characters"] is not None:
        yield "parsed", _parsed(life)
        if life["poor"]:
            yield "poor", "; ".join(life["poor"])
    elif life["status"] == "no_text":
        yield "parsed", f"no text: {error}" if error else "no text"
    if error and life["status"] != "no_text" and error not in {profile["error"] for profile in life["profiles"]}:
        stage = "publish" if life["failed_stage"] == "publish" else "read"
        yield "failed", f"to {stage}, {_time(life['updated_at'])}: {error}"
    for profile in life["profiles"]:
        if profile["status"] or profile["work"]:
            yield _PUBLISHING.get(profile["status"], "pending"), _published(profile)
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


def _parsed(life: Mapping[str, Any]) -> str:
    parts = [counted(life["characters"], "character"), life["content_type"], life["locale"], life["title"]]
    found = ((name.replace("_", " "), _plain(value)) for name, value in sorted(life["quality"].items()))
    parts += [f"{name} {value}" for name, value in found if value]
    if life["versions"] > 1:
        parts.append(f"{counted(life['versions'], 'version')} kept")
    return ", ".join(str(part) for part in parts if part)


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _published(profile: Mapping[str, Any]) -> str:
    name = f"{profile['profile']}{' (active)' if profile['profile_status'] == 'active' else ''}: "
    if profile["status"] != "ready":
        said = _time(profile["updated_at"]) if profile["status"] == "failed" else "not yet"
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
