"""Which paths below a root its owner leaves out: `.ragignore`, `.gitignore`, and the options of the root.

The patterns are those of a `.gitignore` (https://git-scm.com/docs/gitignore). A file of patterns speaks of what lies
below its own folder; the one nearest to a path decides, and in it the last line that matches. `.ragignore` is stronger
than `.gitignore`, `exclude` stronger than both, and a folder that is left out is not looked into.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pathspec import GitIgnoreSpec

from rag_assets.documents.normalize import normalize
from rag_assets.errors import InvalidArgument
from rag_assets.sources.options import RootOptions

RAGIGNORE, GITIGNORE = ".ragignore", ".gitignore"
EXCLUDED = "excluded by the root's options"
NOT_INCLUDED = "not among what the root's options include"
MAX_BYTES = 1024 * 1024  # of one file of patterns
_MAX_LINES = 10_000
_MAX_LINE = 1000  # characters
# A pattern becomes a regular expression, which takes a time to the power of its wildcards: a line must not stop a scan.
_MAX_STARS = 3  # in one part of a path
_MAX_WILDCARDS = 8  # in all
_STARS = re.compile(r"\*+")


@dataclass(frozen=True)
class _Layer:
    base: str  # "" or a folder, with "/" at its end
    spec: GitIgnoreSpec


@dataclass(frozen=True)
class Patterns:
    """The patterns that hold in one folder, and below it until `within` adds more."""

    options: RootOptions
    exclude: GitIgnoreSpec | None
    include: GitIgnoreSpec | None
    ragignore: tuple[_Layer, ...] = ()
    gitignore: tuple[_Layer, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files of patterns that count."""
        return (RAGIGNORE, GITIGNORE) if self.options.gitignore else (RAGIGNORE,)

    def within(self, folder: str, names: Container[str], read: Callable[[str, int], bytes]) -> Patterns:
        """The patterns in a folder that holds these names; `folder` is "" or ends with "/".

        `read(name, limit)` gives the first bytes of a file in it.

        Raises:
            InvalidArgument: a file of patterns is too large, or one of its lines is no pattern. Nothing of the folder
                may be read then: that line may have been there to leave it out.
        """
        found = self
        for name in self.files:
            if name in names:
                layer = _Layer(folder, _from_file(folder + name, read(name, MAX_BYTES + 1)))
                if name == RAGIGNORE:
                    found = replace(found, ragignore=(*found.ragignore, layer))
                else:
                    found = replace(found, gitignore=(*found.gitignore, layer))
        return found

    def left_out(self, path: str, is_folder: bool) -> str | None:
        """Why a path relative to the root is not read, or None."""
        sought = f"{path}/" if is_folder else path
        if self.exclude is not None and self.exclude.check_file(sought).include:
            return EXCLUDED
        for layers, name in ((self.ragignore, RAGIGNORE), (self.gitignore, GITIGNORE)):
            decision = _decide(layers, sought)
            if decision:
                return f"listed in {name}"
            if decision is not None:
                break
        if self.include is not None and not is_folder and not self.include.check_file(sought).include:
            return NOT_INCLUDED
        return None


def patterns_of(options: RootOptions) -> Patterns:
    """The patterns of a root's options.

    Raises:
        InvalidArgument: one of them is no pattern; the text names it.
    """
    exclude = compiled(options.exclude, "exclude") if options.exclude else None
    include = compiled(options.include, "include") if options.include else None
    return Patterns(options, exclude, include)


@lru_cache(maxsize=256)
def compiled(lines: tuple[str, ...], whose: str) -> GitIgnoreSpec:
    """Patterns, checked; `whose` names them in errors.

    Raises:
        InvalidArgument: names the line.
    """
    if len(lines) > _MAX_LINES:
        raise InvalidArgument(f"{whose}: it has more than {_MAX_LINES:,} lines", whose)
    for line in lines:
        fault = _fault(line)
        if fault:
            raise InvalidArgument(f"{whose}: the pattern {line[:100]!r} {fault}", whose)
    try:
        return GitIgnoreSpec.from_lines(map(normalize, lines))
    except ValueError as error:
        raise InvalidArgument(f"{whose}: {error}", whose) from error


def _fault(line: str) -> str | None:
    if line.lstrip().startswith("#"):
        return None
    if len(line) > _MAX_LINE:
        return f"has more than {_MAX_LINE} characters"
    parts = [len(_STARS.findall(part)) for part in line.split("/")]
    if max(parts) > _MAX_STARS or sum(parts) > _MAX_WILDCARDS:
        return f"has more than {_MAX_STARS} wildcards in one part, or {_MAX_WILDCARDS} in all"
    return None


def _from_file(name: str, data: bytes) -> GitIgnoreSpec:
    if len(data) > MAX_BYTES:
        raise InvalidArgument(f"{name}: it is larger than {MAX_BYTES // 2**20} MB", name)
    return compiled(tuple(data.decode("utf-8-sig", "replace").splitlines()), name)


def _decide(layers: Sequence[_Layer], path: str) -> bool | None:
    for layer in reversed(layers):
        include = layer.spec.check_file(path.removeprefix(layer.base)).include
        if include is not None:
            return include
    return None
