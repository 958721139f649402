"""How a chunking is written on the command line: `STRATEGY:SIZE:OVERLAP[:NAME=VALUE,...]`."""

from __future__ import annotations

from pydantic import ValidationError

from rag_assets.chunking import ChunkingSpec
from rag_assets.embedding.profiles import DEFAULT_CHUNKING
from rag_assets.errors import UsageError
from rag_assets.faults import faults_of


def parse_chunking(text: str | None) -> ChunkingSpec:
    """The chunking that `text` describes; that of the built-in profiles where there is none.

    `recursive:1200:150`, `token:256:32:tokenizer=wordllama`, `markdown:1200:0:context_header=true`.

    Raises:
        UsageError: it is not of that form, or names what no chunker has.
        InvalidProfile: size and overlap contradict each other.
    """
    if not text:
        return DEFAULT_CHUNKING
    strategy, *rest = text.split(":", 3)
    if len(rest) < 2 or not (rest[0].isdecimal() and rest[1].isdecimal()):
        raise UsageError(f"a chunking is STRATEGY:SIZE:OVERLAP, such as recursive:1200:150, not {text!r}")
    fields: dict[str, str | int] = {"strategy": strategy, "size": int(rest[0]), "overlap": int(rest[1])}
    for extra in rest[2].split(",") if len(rest) > 2 else ():
        name, equals, value = extra.partition("=")
        if not equals:
            raise UsageError(f"{extra!r} in {text!r} is not NAME=VALUE")
        fields[name] = value
    try:
        return ChunkingSpec.model_validate(fields)
    except ValidationError as error:
        raise UsageError(f"chunking {text!r}: {'; '.join(faults_of(error, ChunkingSpec))}") from error
