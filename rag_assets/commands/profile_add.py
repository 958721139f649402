"""`rag profile add`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rag_assets.commands.catalogue import needs_text, profile_payload
from rag_assets.commands.chunking import parse_chunking
from rag_assets.commands.options import IndexKind, IndexStorage, Json, Metric
from rag_assets.commands.session import ready_database
from rag_assets.commands.shell import CommandResult
from rag_assets.embedding.profiles import DEFAULT_CHUNKING, make_profile
from rag_assets.errors import UsageError
from rag_assets.store.profiles import add_spec, list_specs
from rag_assets.terms import NEWEST

ChunkSize = Annotated[
    int | None, typer.Option(help="Largest chunk, in characters. (default: 1200)", show_default=False)
]
ChunkOverlap = Annotated[
    int | None,
    typer.Option(help="Characters that a chunk repeats of the one before. (default: 150)", show_default=False),
]
Chunking = Annotated[
    str | None,
    typer.Option(
        help="Instead of size and overlap: STRATEGY:SIZE:OVERLAP[:NAME=VALUE,...], such as "
        "markdown:1200:0:context_header=true.",
        show_default=False,
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(help="Of an openai-compatible server, with its /v1. (default: OPENAI_BASE_URL)", show_default=False),
]
QueryInstruction = Annotated[
    str | None,
    typer.Option(help="Put before each query. (default: what the model was trained with)", show_default=False),
]
DocumentInstruction = Annotated[
    str | None, typer.Option(help="Put before each document. (default: as for queries)", show_default=False)
]
Option = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="For the provider: key_env, encoding_format, send_dimensions, task, max_input_tokens, multimodal. For the "
        "chat model that finds triples: graph.provider, graph.model, graph.base_url, graph.key_env.",
    ),
]
Storage = Annotated[
    IndexStorage | None,
    typer.Option(
        help="How the index keeps vectors: whole, in half the space, or a bit for each dimension. (default: halfvec)",
        show_default=False,
    ),
]
Terms = Annotated[
    int | None,
    typer.Option(
        help=f"Version of the words that lexical search finds a text by. (default: {NEWEST})", show_default=False
    ),
]


def add_profile(
    name: Annotated[str, typer.Argument(help="Name of the new profile; a name never changes its meaning.")],
    provider: Annotated[
        str,
        typer.Option(
            help="google, openai-compatible, sentence-transformers, onnx, wordllama or hash.", show_default=False
        ),
    ],
    model: Annotated[str, typer.Option(help="Model of that provider.", show_default=False)],
    dimensions: Annotated[int, typer.Option(help="Length of the vectors, at most 4000.", show_default=False)],
    metric: Annotated[Metric, typer.Option(help="Distance between vectors.")] = Metric.cosine,
    chunk_size: ChunkSize = None,
    chunk_overlap: ChunkOverlap = None,
    chunking: Chunking = None,
    language: Annotated[str, typer.Option(help="Postgres text search configuration of the words.")] = "english",
    index: Annotated[
        IndexKind, typer.Option(help="auto builds an HNSW index once exact search would be slow.")
    ] = IndexKind.auto,
    exact_below: Annotated[
        int | None,
        typer.Option(help="With auto: search exactly below this many chunks. (default: by dimensions)"),
    ] = None,
    index_storage: Storage = None,
    base_url: BaseUrl = None,
    query_instruction: QueryInstruction = None,
    document_instruction: DocumentInstruction = None,
    option: Option = None,
    terms: Terms = None,
    as_json: Json = False,
) -> CommandResult:
    """Add a profile to the catalogue. It is built for a bot by: rag ingest --profile NAME."""
    instructions = {"query": query_instruction, "document": document_instruction}
    profile = make_profile(
        name=name,
        provider=provider,
        model=model,
        dimensions=dimensions,
        distance_metric=metric.value,
        chunking=_chunking(chunking, chunk_size, chunk_overlap),
        lexical={"language": language},
        index=_index(index, exact_below, index_storage),
        task_instruction={role: text for role, text in instructions.items() if text is not None},
        options=_options(base_url, option or []),
        **({} if terms is None else {"terms": terms}),
    )
    with ready_database(makes_home=True) as database:
        with database.work() as connection:
            known = {spec.name for spec in list_specs(connection)}
        profile = add_spec(database, profile)
    created = name not in known
    text = f"profile {name} {'added' if created else 'exists already, with the same specification'}"
    needs = needs_text(name, profile.model_info.missing_packages())
    lines = [text, needs] if needs else [text]
    return CommandResult(
        {**profile_payload(profile), "created": created},
        lambda console: console.print("\n".join(lines), markup=False, soft_wrap=True),
    )


def _index(kind: IndexKind, exact_below: int | None, storage: IndexStorage | None) -> dict[str, Any]:
    if storage is None:
        return {"kind": kind.value, "exact_below": exact_below}
    if kind is IndexKind.exact:
        raise UsageError("--index-storage: with --index exact there is no index; leave one of the two out")
    return {"kind": kind.value, "exact_below": exact_below, "storage": storage.value}


def _chunking(text: str | None, size: int | None, overlap: int | None) -> dict[str, Any]:
    if text is not None:
        if size is not None or overlap is not None:
            raise UsageError("--chunking says size and overlap itself: leave out --chunk-size and --chunk-overlap")
        return parse_chunking(text).model_dump()
    given = {"size": size, "overlap": overlap}
    return DEFAULT_CHUNKING.model_dump() | {field: value for field, value in given.items() if value is not None}


def _options(base_url: str | None, given: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {} if base_url is None else {"base_url": base_url}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--option {text!r} is not NAME=VALUE")
        group, dot, inner = name.partition(".")
        if dot:
            options.setdefault(group, {})[inner] = value
        else:
            options[name] = value
    return options
