"""What the rows of `Settings` are made of: groups, kinds of values, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from rag_assets.addresses import AddressFault

PLACES, PROVIDERS, BATCHES, PARSING, WEB, OBSERVING, RUNNING = (
    "Where things are",
    "Embedding providers",
    "Embedding by batch",
    "Parsing files",
    "Reading the web",
    "Seeing what happens",
    "Running",
)


def row(name: str, default: Any, group: str, meaning: str, **more: Any) -> Any:
    """A field of `Settings`.

    Of `more`, `allowed` says what a value may be where type and bounds do not, and `unset` what holds while the
    variable is not set where `default` does not; the rest is pydantic's.
    """
    extra = {"group": group, "allowed": more.pop("allowed", None), "unset": more.pop("unset", None)}
    more["default_factory" if callable(default) else "default"] = default
    return Field(validation_alias=name, description=meaning, json_schema_extra=extra, **more)


def storage_under_home(values: Mapping[str, Any]) -> str:
    """Where files between assets lie while nothing else is said."""
    return str(values["home"] / "storage")


def address(check: Callable[[str], str]) -> AfterValidator:
    """Checks an address, where there is one."""
    return AfterValidator(lambda text: check(text) if text is not None else None)


def beside_database(text: str | None, info: ValidationInfo) -> str | None:
    """A further login of a server, which has to be named itself."""
    if text is not None and info.data.get("database_url", text) is None:
        raise AddressFault("is a further login of the server that DATABASE_URL names, which is not set")
    return text


def _split(text: object) -> object:
    return tuple(name.strip() for name in text.split(",") if name.strip()) if isinstance(text, str) else text


def _zero_or_one(text: object) -> object:
    # Pydantic takes yes, on, t and more for true, of which no page tells and another program may think otherwise.
    if isinstance(text, str) and text not in ("0", "1"):
        raise ValueError("neither 0 nor 1")
    return text


Flag = Annotated[bool, BeforeValidator(_zero_or_one)]
Words = Annotated[tuple[str, ...], BeforeValidator(_split)]
