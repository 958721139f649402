"""Which sources the documents are that labels name, and which labels can decide nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import UUID

from evals.datasets import EvalSet
from rag_assets.printing import counted

if TYPE_CHECKING:  # whoever reads a verdict needs no database
    from rag_assets.retrieval import RetrievalResult

MAX_LEFT_OUT = 0.01  # of the labels; so few change no mean by more than that
_NAMED = 5  # ids listed in a problem
_IS, _ARE = "labelled document is", "labelled documents are"


@dataclass(frozen=True)
class Labels:
    """What the relevant labels of a set name in a bot's sources.

    Attributes:
        names: labelled documents by the source that they are.
        absent: labelled documents that are in no source.
        empty: labelled documents whose source no profile can hold, because nothing could be read from it.
        ambiguous: labelled documents that several sources with different texts are, each with names that tell them
            apart.
        labels: pairs of a query and a relevant document; `lost` of them name a document that is absent or empty.
    """

    names: Mapping[UUID, tuple[str, ...]]
    absent: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    ambiguous: Mapping[str, tuple[str, ...]] | None = None
    labels: int = 0
    lost: int = 0

    @cached_property
    def without_document(self) -> tuple[str, ...]:
        """Labelled documents that no profile can return, sorted."""
        return tuple(sorted({*self.absent, *self.empty}))

    @property
    def lost_share(self) -> float:
        """Of the labels, those that nothing could answer; 0 where there are no labels."""
        return self.lost / self.labels if self.labels else 0.0

    def counted(self, evalset: EvalSet, max_left_out: float = MAX_LEFT_OUT) -> EvalSet:
        """The set without the labels that nothing could answer, if they are at most that share; else as it is."""
        if not self.lost or self.lost_share > max_left_out:
            return evalset
        lost = frozenset(self.without_document)
        kept = {q: {d: grade for d, grade in grades.items() if d not in lost} for q, grades in evalset.qrels.items()}
        return replace(evalset, qrels=kept)

    def documents_of(self, hit: RetrievalResult, relevant: Mapping[str, int]) -> tuple[str, ...]:
        """As what a hit counts for a query: the documents that its labels call relevant among all places where the
        text lies, or else the document that is cited."""
        places = [hit.source_id, *(UUID(str(place["source_id"])) for place in hit.citation.get("also_at", ()))]
        found = dict.fromkeys(
            name for place in places for name in self.names.get(place, ()) if relevant.get(name, 0) > 0
        )
        return tuple(found) or (str(hit.citation.get("document", hit.source_name)),)

    def as_dict(self) -> dict[str, object]:
        """For JSON: how many labels there are, the share that can be judged, and the documents of the others."""
        return {
            "labels": self.labels,
            "judged_share": 1 - self.lost_share,
            "absent": list(self.absent),
            "empty": list(self.empty),
            "ambiguous": {name: list(others) for name, others in (self.ambiguous or {}).items()},
        }

    def problems(self) -> Iterator[str]:
        """One sentence for each kind of label that decides nothing, with the way out."""
        for name, others in (self.ambiguous or {}).items():
            yield (
                f"the labelled document {name} is {len(others)} different sources: name the one that is meant by more "
                f"of its address, as {' or '.join(others[:_NAMED])}"
            )
        if self.absent:
            yield f"{counted(len(self.absent), _IS, _ARE)} in no source: {some(self.absent)}"
        if self.empty:
            yield f"{counted(len(self.empty), _IS, _ARE)} without text that a profile could hold: {some(self.empty)}"


NO_LABELS = Labels({})


def some(names: Sequence[str]) -> str:
    """The first of some names, for a sentence."""
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
