"""Ingest a BEIR corpus into Postgres with CocoIndex, and print what it took as one JSON object.

A flow as in its examples: files of a local folder, RecursiveSplitter, an embedder, a Postgres table with a vector
index. It reads files, so each document is written to one first, which the clock does not cover. It has no embedder for
this model; this one batches as its own for sentence-transformers does. No full-text index: it has none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

os.environ.setdefault("COCOINDEX_DISABLE_USAGE_TRACKING", "1")

import asyncpg
import cocoindex as coco
import numpy as np
from cocoindex.connectors import localfs, postgres
from cocoindex.ops.text import RecursiveSplitter
from cocoindex.resources.chunk import Chunk
from cocoindex.resources.file import FileLike
from cocoindex.resources.id import IdGenerator
from cocoindex.resources.schema import VectorSchema
from numpy.typing import NDArray
from static_model import DIMENSIONS, StaticModel, peak_rss_mb, read_jsonl, text_of


class StaticEmbedder:
    """Texts that are asked for at once are embedded together."""

    def __init__(self) -> None:
        self.model = StaticModel()

    @coco.fn.as_async(batching=True, max_batch_size=64)
    def embed(self, texts: list[str]) -> list[NDArray[np.float32]]:
        return list(self.model.embed(texts))

    async def __coco_vector_schema__(self) -> VectorSchema:
        return VectorSchema(dtype=np.dtype(np.float32), size=DIMENSIONS)

    def __coco_memo_key__(self) -> object:
        return "l2_supercat_256"


DATABASE = coco.ContextKey[asyncpg.Pool]("database")
EMBEDDER = coco.ContextKey[StaticEmbedder]("embedder")
_splitter = RecursiveSplitter()


@dataclass
class Row:
    """A chunk as it is stored."""

    id: int
    filename: str
    chunk_start: int
    chunk_end: int
    text: str
    embedding: Annotated[NDArray[np.float32], EMBEDDER]


@coco.fn
async def store_chunk(chunk: Chunk, filename: str, ids: IdGenerator, table: postgres.TableTarget[Row]) -> None:
    embedding = await coco.use_context(EMBEDDER).embed(chunk.text)
    where = chunk.start.char_offset, chunk.end.char_offset
    table.declare_row(row=Row(await ids.next_id(chunk.text), filename, *where, chunk.text, embedding))


@coco.fn(memo=True)
async def store_file(file: FileLike, size: int, overlap: int, table: postgres.TableTarget[Row]) -> None:
    chunks = _splitter.split(await file.read_text(), chunk_size=size, chunk_overlap=overlap)
    path = str(file.file_path.path)
    await coco.map(store_chunk, chunks, path, IdGenerator(path), table)


@coco.fn
async def flow(folder: Path, table: str, size: int, overlap: int) -> None:
    schema = await postgres.TableSchema.from_class(Row, primary_key=["id"])
    target = await postgres.mount_table_target(DATABASE, table, schema)
    target.declare_vector_index(column="embedding", metric="cosine", method="hnsw")
    files = localfs.walk_dir(folder, recursive=True)
    await coco.mount_each(store_file, files.items(), size, overlap, target)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", required=True, help="a postgresql:// URL; ?host=/folder for a socket")
    parser.add_argument("--corpus", required=True, type=Path, help="corpus.jsonl with _id, title and text")
    parser.add_argument("--table", required=True)
    parser.add_argument("--chunk-size", type=int, default=1200, help="bytes")
    parser.add_argument("--chunk-overlap", type=int, default=150, help="bytes")
    return parser.parse_args()


def write_files(corpus: Path, folder: Path) -> int:
    """One file for each document; how many."""
    number = 0
    for number, row in enumerate(read_jsonl(corpus), start=1):
        part = folder / f"{number // 1000:05}"
        part.mkdir(exist_ok=True)
        (part / f"{number:08}.txt").write_text(text_of(row), encoding="utf-8")
    return number


async def run(args: argparse.Namespace, folder: Path) -> tuple[int, float, float]:
    """Chunks, seconds, and seconds of them in the model."""
    embedder = StaticEmbedder()
    async with asyncpg.create_pool(args.dsn) as pool:
        await pool.execute(f'DROP TABLE IF EXISTS "{args.table}"')

        @coco.lifespan
        async def lifespan(builder: coco.EnvironmentBuilder) -> AsyncIterator[None]:
            builder.provide(DATABASE, pool)
            builder.provide(EMBEDDER, embedder)
            builder.settings.db_path = folder / "state"
            yield

        app = coco.App(
            coco.AppConfig(name="bench"), flow, folder / "files", args.table, args.chunk_size, args.chunk_overlap
        )
        started = time.perf_counter()
        await app.update()
        seconds = time.perf_counter() - started
        chunks = await pool.fetchval(f'SELECT count(*) FROM "{args.table}"')
    return int(chunks), seconds, embedder.model.seconds


def main() -> None:
    args = arguments()
    with TemporaryDirectory(prefix="cocoindex-") as name:
        folder = Path(name)
        (folder / "files").mkdir()
        documents = write_files(args.corpus, folder / "files")
        chunks, seconds, embedding = asyncio.run(run(args, folder))
    report = {
        "documents": documents,
        "chunks": chunks,
        "seconds": round(seconds, 2),
        "seconds_embedding": round(embedding, 2),
        "chunks_per_s": round(chunks / seconds, 1),
        "peak_rss_mb": round(peak_rss_mb(), 1),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
