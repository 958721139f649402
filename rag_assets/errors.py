"""Every error that this package raises on purpose.

RagError
├── UsageError            the caller asked for something that cannot be (exit code 2)
│   ├── InvalidArgument   a value of the wrong kind or out of bounds, with the name of the argument
│   │   ├── InvalidKey    a tenant, bot or profile key outside [a-z0-9][a-z0-9_-]{0,62}
│   │   └── ScopeError    a retrieval without a valid scope; nothing was searched
│   ├── UnknownTenant / UnknownBot / UnknownProfile / UnknownRoot / UnknownSource / UnknownPath
│   └── InvalidProfile    a profile that could never be built
├── DatabaseRefused       a server, schema or role that this product must not run on
│   └── ScopeRefused      the database wants signed scopes, and this one is not signed, or not with a key in use
├── DatabaseUnavailable   no server could be reached or started
├── DatabaseFailed        the database failed at something that was well-formed
├── SourceError
│   ├── RootUnreadable    a source root that could not be listed; never the same as an empty one
│   ├── RootMoved         a new root holds what another one held, which is gone there; nothing was read
│   ├── UnsupportedFormat no parser takes these bytes
│   └── ParseError        a file that its parser could not read
├── ParserUnavailable     no process could be started to parse files in
├── TokenizerUnavailable  the tokenizer that a profile counts tokens with is not on this machine
├── EmbeddingError        a provider returned something that must not be stored
│   ├── TextRefused       this text cannot be embedded, by anybody's second try; others can
│   ├── ProviderUnavailable  no answer within the deadline, or a quota is used up: another run goes on from here
│   ├── ProviderRefused   the key, the model or the request as such is refused: nothing will be embedded
│   └── CostCeilingReached  the next request could cost more than the profile may
├── ChatError             a chat model gave nothing that can be used
│   ├── ModelUnavailable  no answer within the time limit, or a quota is used up
│   ├── ModelRefused      the key, the model, the request or its contents are refused
│   └── ModelNonsense     an answer that is empty, cut off, or of another form than was asked for
├── PushLimitReached      the bot has as many pushed documents, or bytes of them, as it may
├── PromotionRefused      the pointer to the active profile was not moved, with the reason
└── ProfileNotReady       the bot has no active profile, or the profile is not built for it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path

from rag_assets.printing import printable_lines

_LISTED = 10  # names in one message
_SHOWN_CHARS = 100  # of a value in an error
_LIKE = 0.7  # from 0 to 1, of names that one may have been typed for the other
_PART_LIKE = 0.6  # of each part of a path, where the others fit


class RagError(Exception):
    """Base of all errors raised on purpose; its text is meant for the person at the terminal."""

    def __str__(self) -> str:
        # It may name files and repeat answers: wherever it is shown or logged, no character of it acts.
        return printable_lines(super().__str__())


class UsageError(RagError):
    """The request itself is wrong: another attempt with the same arguments fails again."""


class InvalidArgument(UsageError, ValueError):
    """An argument of the wrong kind or out of bounds; `argument` is its name, and nothing was done."""

    def __init__(self, message: str, argument: str = "") -> None:
        super().__init__(message)
        self.argument = argument


class InvalidKey(InvalidArgument):
    """A tenant, bot or profile key that would break partitions, paths or settings; `argument` is which of them."""


class ScopeError(InvalidArgument):
    """A retrieval was asked for without a scope that names exactly one tenant's profile."""


class UnknownTenant(UsageError):
    """No such tenant."""


class UnknownBot(UsageError):
    """No such bot for this tenant."""


class UnknownProfile(UsageError):
    """No such embedding profile, or none of that name for this bot."""


class UnknownRoot(UsageError):
    """The bot remembers no such source root."""


class UnknownSource(UsageError):
    """No such source in the scope, or nothing of it that is served."""


class UnknownPath(UsageError):
    """No such file or folder."""


class InvalidProfile(UsageError):
    """A profile whose parts contradict each other or exceed what Postgres can index."""


class DatabaseRefused(RagError):
    """The server or role is reachable and unfit: too old, without our schema, or able to bypass row-level security."""


class ScopeRefused(DatabaseRefused):
    """The database takes signed scopes alone, and this one has no signature that holds; nothing was read."""


class DatabaseUnavailable(RagError):
    """No server answered, or the embedded one could not be started."""


class DatabaseFailed(RagError):
    """The database answered something well-formed with an error that another try would meet again; it says which."""


class SourceError(RagError):
    """Something is wrong with a source, not with the product."""


class RootUnreadable(SourceError):
    """A source root could not be listed. Its sources stay as they are."""


class RootMoved(SourceError):
    """A new root holds the files of another one that is gone; nothing was read. The text says how it is moved."""


class UnsupportedFormat(SourceError):
    """No registered parser takes this content."""


class ParseError(SourceError):
    """A parser could not read the bytes; the text says why and, where known, at which line or page."""


class ParserUnavailable(RagError):
    """No parser process could be started: nothing is known about the file, and another run may read it."""


class TokenizerUnavailable(RagError):
    """Nothing can be measured in tokens: a package, a file or a download is missing; the text says which."""


class EmbeddingError(RagError):
    """An embedder returned the wrong number, shape or kind of vectors; nothing of it was stored."""


class TextRefused(EmbeddingError):
    """One of the texts is at fault: blank, no Unicode, too long, or refused by the provider, who was sent it
    (`by_provider`)."""

    def __init__(self, message: str, by_provider: bool = False) -> None:
        super().__init__(message)
        self.by_provider = by_provider


class ProviderUnavailable(EmbeddingError):
    """The provider did not answer, or not in time; what was embedded is kept.

    `unanswered` says what became of one request, where one of its texts may be more than the provider can bear: it
    failed, fell silent or broke off at every try. Empty where nothing of the kind can be: a quota, a rate limit.
    """

    def __init__(self, message: str, unanswered: str = "") -> None:
        super().__init__(message)
        self.unanswered = unanswered


class ProviderRefused(EmbeddingError):
    """The provider answers and refuses: a wrong key, an unknown model, an address that is no such server."""


class CostCeilingReached(EmbeddingError):
    """The profile's ceiling for this tenant leaves no room for the next request; nothing was sent."""


class ChatError(RagError):
    """A chat model gave nothing that can be used; whoever asked it goes on without it."""


class ModelUnavailable(ChatError):
    """The chat model did not answer, or not in time, or a quota is used up."""


class ModelRefused(ChatError):
    """The chat model's server refuses the key, the model or the request, or the model what it was to talk about.

    `is_bad_request`: the request is at fault as it was formed, and another form of it may be taken.
    """

    def __init__(self, message: str, is_bad_request: bool = False) -> None:
        super().__init__(message)
        self.is_bad_request = is_bad_request


class ModelNonsense(ChatError):
    """The chat model's answer is empty, cut off, or of another form than was asked for.

    `tokens` is what was read and written for it, and `written` what of these was written; 0 and None: nobody knows.
    """

    def __init__(self, message: str, tokens: int = 0, written: int | None = None) -> None:
        super().__init__(message)
        self.tokens, self.written = tokens, written


class TimeLimitReached(RagError):
    """A part of a retrieval took longer than it may; what was found without it stands."""


class PushLimitReached(RagError):
    """The bot has as many pushed documents, or bytes of them, as it may; nothing was kept."""


class PromotionRefused(RagError):
    """No passed verdict on this candidate, baseline and corpus; or another promotion was faster."""


class ProfileNotReady(RagError):
    """The bot has no active profile yet, or the profile asked for is not built for it."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what is kept of the work and how to go on."""


def was_interrupted(error: BaseException) -> bool:
    """Whether an interrupt is behind the error: Dagster, and whatever fails while it is being stopped, raise others."""
    return any(
        isinstance(cause, KeyboardInterrupt) or type(cause).__name__ == "DagsterExecutionInterruptedError"
        for cause in causes(error)
    )


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it came from, each once: errors that are raised from each other may lead in a circle."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__


def unknown(
    kind: str,
    name: str,
    known: Iterable[str],
    *,
    of: str = "",
    way_out: str = "",
    listed: bool = True,
    places: bool = False,
) -> UsageError:
    """The error for a name that does not exist, in the words that every command and function uses.

    It suggests the names that look like it, and only where none does tells all of them and the way out: to create what
    was misspelt helps nobody. `of` says whose it would be, as in `of tenant 'acme'`. What the caller may not see does
    not belong into `known`; `listed` False keeps all but the likely ones out of the text. The names of `places`, paths
    and addresses, are compared part by part.
    """
    names = sorted(set(known))
    likely = alike_places(name, names) if places else alike(name, names)
    text = f"no {kind} {name!r}" + (f" {of}" if of else "")
    if likely:
        text += f"; {did_you_mean(likely)}"
    else:
        if listed:
            more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
            text += f"; there are: {', '.join(names[:_LISTED])}{more}" if names else "; there are none yet"
        text += f". {way_out}" if way_out else ""
    return _UNKNOWN.get(kind, UsageError)(text)


def unknown_path(word: str, kind: str = "file or folder") -> UsageError:
    """The error for a path that does not exist, as it was typed."""
    path = Path(word).expanduser().absolute()
    if path.exists():
        return UnknownPath(f"{word} is no {kind}" + (", but a folder" if path.is_dir() else ""))
    missing = path
    while not missing.parent.is_dir() and missing.parent != missing:
        missing = missing.parent
    rest = path.relative_to(missing)
    meant = (missing.with_name(name) / rest for name in alike(missing.name, _entries(missing.parent)))
    found = [str(other) for other in meant if other.exists()]
    text = f"no {kind} {str(path)!r}" + (f"; {did_you_mean(found)}" if found else "")
    return UnknownPath(text if str(path) == word else f"{text} (typed as {word!r})")


def shown(value: object) -> str:
    """A value as an error shows it: what was given may be a megabyte long, or have no text at all."""
    try:
        text = repr(value)
    except Exception:  # an int of more digits than Python writes, or an object of somebody else's
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def did_you_mean(likely: Sequence[str]) -> str:
    """The question that ends a message about a name that does not exist."""
    return f"did you mean {' or '.join(map(repr, likely))}?"


def alike(name: str, names: Sequence[str]) -> list[str]:
    """The one that looks most like it, and those that do so nearly as much; none where all are other words."""
    found = get_close_matches(name, names, n=3, cutoff=_LIKE)
    likeness = [SequenceMatcher(None, other, name).ratio() for other in found]
    return [other for other, ratio in zip(found, likeness, strict=True) if ratio > likeness[0] - 0.03]


def alike_places(place: str, known: Sequence[str]) -> list[str]:
    """The same for paths and addresses: those that end in the same parts, but for some that look like it. What long
    paths have in common says nothing."""
    asked = place.rstrip("/").split("/")
    near = {other: _nearness(asked, other.rstrip("/").split("/")[-len(asked) :]) for other in known}
    best = max(near.values(), default=0.0)
    return [other for other, ratio in near.items() if ratio and ratio > best - 0.03][:3]


def _nearness(asked: Sequence[str], parts: Sequence[str]) -> float:
    """How like the parts are in all; 0 where one of them is another word."""
    if len(asked) != len(parts):
        return 0.0
    ratios = [SequenceMatcher(None, part, one).ratio() for one, part in zip(asked, parts, strict=True)]
    ratio = sum(ratios) / len(ratios)
    return ratio if ratio >= _LIKE and min(ratios) >= _PART_LIKE else 0.0


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


_UNKNOWN: dict[str, type[UsageError]] = {
    "tenant": UnknownTenant,
    "bot": UnknownBot,
    "profile": UnknownProfile,
    "root": UnknownRoot,
}
