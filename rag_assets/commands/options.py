"""Options that several commands share, and their choices."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rag_assets.errors import unknown_path
from rag_assets.keys import check_key


def key(kind: str) -> Callable[[str | list[str] | None], str | list[str] | None]:
    """What a parameter that takes keys has as its `callback`; raises InvalidKey, which names the kind."""

    def checked(value: str | list[str] | None) -> str | list[str] | None:
        for word in [value] if isinstance(value, str) else value or []:
            check_key(word, kind)
        return value

    return checked


def existing(kind: str) -> Callable[[Path | list[Path] | None], Path | list[Path] | None]:
    """What a parameter that names a `file` or `folder` to be read has as its `callback`; raises UnknownPath."""

    def checked(value: Path | list[Path] | None) -> Path | list[Path] | None:
        for path in [value] if isinstance(value, Path) else value or []:
            if not (path.is_dir() if kind == "folder" else path.is_file()):
                raise unknown_path(str(path), kind)
        return value

    return checked


Tenant = Annotated[str, typer.Option("--tenant", help="Key of the tenant.", show_default=False, callback=key("tenant"))]
Bot = Annotated[str, typer.Option("--bot", help="Key of the tenant's bot.", show_default=False, callback=key("bot"))]
AnyBot = Annotated[
    str | None,
    typer.Option("--bot", help="Only this bot of the tenant. (default: all)", show_default=False, callback=key("bot")),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]


Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="PATTERN", help="Leave out what matches, as in a .gitignore. May be repeated."),
]
Include = Annotated[
    list[str] | None,
    typer.Option("--include", metavar="PATTERN", help="Read only what matches one of these. May be repeated."),
]
GitIgnore = Annotated[
    bool | None,
    typer.Option("--gitignore/--no-gitignore", help="Obey .gitignore files below the root.", show_default=False),
]
AllFolders = Annotated[
    bool | None,
    typer.Option(
        "--all-folders/--no-all-folders",
        help="Read folders that programs fill, too: node_modules, build outputs and the like.",
        show_default=False,
    ),
]
NoIndex = Annotated[
    bool | None,
    typer.Option(
        "--noindex/--no-noindex", help="Read web pages that ask not to be indexed: one's own.", show_default=False
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", help="Of text files that do not say theirs. (default: found out)", show_default=False),
]
User = Annotated[
    str | None,
    typer.Option("--user", help="With --visibility user: whose sources they are.", show_default=False),
]


class VisibleTo(StrEnum):
    """Who sees the sources of a root."""

    bot = "bot"
    tenant = "tenant"
    user = "user"


class BotOrUser(StrEnum):
    """Who sees the sources of a root of one bot."""

    bot = "bot"
    user = "user"


Visibility = Annotated[
    VisibleTo | None,
    typer.Option(
        help="Who sees what lies under PATH: all users of the bot, all bots of the tenant (it goes to their common "
        "space, all-bots), or one user alone. (default: bot)",
        show_default=False,
    ),
]
BotVisibility = Annotated[
    BotOrUser | None,
    typer.Option(
        "--visibility",
        help="Who sees its sources from now on: all users of the bot, or one user alone.",
        show_default=False,
    ),
]
Batch = Annotated[
    bool, typer.Option("--batch", help="Embed through the provider's batch API: half the price, a day or so later.")
]
RetryFailed = Annotated[
    bool,
    typer.Option(
        "--retry-failed", help="Also read what failed or held no text again, and send what a model refused again."
    ),
]
RetrieverFile = Annotated[
    Path | None,
    typer.Option(
        "--retriever",
        metavar="FILE.toml",
        help="Search with the retriever that this file describes, instead of hybrid search, or a --mode.",
        callback=existing("file"),
        show_default=False,
    ),
]
Reread = Annotated[
    bool, typer.Option("--reread", help="Read all files again, however unchanged they look; same texts cost nothing.")
]


def given_options(
    exclude: list[str] | None,
    include: list[str] | None,
    gitignore: bool | None,
    all_folders: bool | None,
    noindex: bool | None,
    encoding: str | None,
) -> dict[str, object]:
    """The options of a root that were given, by their names."""
    given: dict[str, object] = {
        "exclude": tuple(exclude) if exclude else None,
        "include": tuple(include) if include else None,
        "gitignore": gitignore,
        "all_folders": all_folders,
        "noindex": noindex,
        "encoding": encoding,
    }
    return {name: value for name, value in given.items() if value is not None}


class SearchMode(StrEnum):
    """How to search."""

    dense = "dense"
    lexical = "lexical"
    hybrid = "hybrid"


class Metric(StrEnum):
    """Distance between vectors."""

    cosine = "cosine"
    ip = "ip"
    l2 = "l2"


class IndexStorage(StrEnum):
    """How an index keeps vectors."""

    vector = "vector"
    halfvec = "halfvec"
    bit = "bit"


class IndexKind(StrEnum):
    """How a profile's vectors are searched."""

    auto = "auto"
    exact = "exact"
    hnsw = "hnsw"
