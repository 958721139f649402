"""What pydantic finds wrong with values, in the words of this product."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from rag_assets.errors import unknown

_QUOTED = re.compile(r"'([^']*)'")


def faults_of(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Each fault of the values that the model was made of, as `chunking.size: Input should be …`; where a name is none
    of those that there are, with the one that was meant."""
    return [_said(fault, model) for fault in error.errors(include_url=False)]


def _said(fault: Mapping[str, Any], model: type[BaseModel]) -> str:
    place = tuple(fault["loc"])
    words = without_class(fault["msg"])
    if fault["type"] == "extra_forbidden":
        place, name = place[:-1], str(place[-1])
        words = str(unknown("option", name, _fields(model, place)))
    elif fault["type"] == "literal_error" and isinstance(fault["input"], str):
        *above, kind = map(str, place)
        place, kind = tuple(above), "name" if kind == "[key]" else kind
        words = str(unknown(kind, fault["input"], _QUOTED.findall(fault["ctx"]["expected"])))
    where = ".".join(map(str, place))
    return f"{where}: {words}" if where else words


def without_class(message: str) -> str:
    """A message of pydantic's without the name of the Python error in front of it, which says nothing to a reader."""
    return re.sub(r"^(?:Value|Assertion) error, ", "", message)


def _fields(model: type[BaseModel], place: Sequence[object]) -> list[str]:
    """The fields of the model at a place inside of `model`; none where that is no model."""
    found: type[BaseModel] | None = model
    for part in place:
        field = found.model_fields.get(str(part)) if found else None
        kinds = [field.annotation, *get_args(field.annotation)] if field else []
        found = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
    return list(found.model_fields) if found else []
