"""What may be taken away of a file that was read again: all that is in it no more, but for what may only be hidden."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from rag_assets.store.sources import SourceState, StagedSource


@dataclass(frozen=True)
class Vanished:
    """Sources that are not seen in their file now: those that are `gone`, and those that stay because they may be what
    could not be read of it: `hidden`."""

    gone: tuple[UUID, ...] = ()
    hidden: tuple[UUID, ...] = ()


def vanished(staged: Sequence[StagedSource], before: Iterable[SourceState]) -> Vanished:
    """Compare what a file holds now with what was known of it `before`.

    What failed keeps the sources of its own name, and those inside it: of a file that cannot be read all, of an archive
    with a locked member what that member held. A part that could be any record, such as a line that is no JSON, keeps
    all that is not seen, for as long as there is one; unless it was just as unreadable when they were seen.
    """
    before = list(before)
    there = {source.id for source in staged}
    failed = [source for source in staged if source.status == "failed"]
    own = {source.external_id for source in failed}
    blind = {source.part for source in failed if source.hides_others}
    known = {state.checksum for state in before if _is_bare_failure(state)}
    newly_blind = {source.part for source in failed if source.hides_others and source.checksum not in known}
    gone, hidden = [], []
    for state in before:
        if state.id in there or state.status == "forgotten" or _lies_in(state, own):
            continue  # what was forgotten stays so, also while its file is away
        if not _is_bare_failure(state) and _lies_in(state, blind if state.is_missing else newly_blind):
            hidden.append(state.id)
        else:
            gone.append(state.id)
    return Vanished(tuple(gone), tuple(hidden))


def _is_bare_failure(state: SourceState) -> bool:
    """Whether it stands for something that could never be read."""
    return state.status == "failed" and not state.has_version


def _lies_in(state: SourceState, places: set[str]) -> bool:
    """Whether a source is one of these, or inside one of these, by external ids."""
    end = len(state.external_id) if places else -1
    while end > 0:
        if state.external_id[:end] in places:
            return True
        end = state.external_id.rfind("#", 0, end)
    return False
