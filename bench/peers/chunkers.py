"""Time other libraries' splitters over a list of texts, and print MB/s by name as one JSON object."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import tree_sitter_python
from chonkie import RecursiveChunker, SentenceChunker, TokenChunker
from langchain_text_splitters import Language, MarkdownTextSplitter, RecursiveCharacterTextSplitter
from semantic_text_splitter import CodeSplitter, MarkdownSplitter, TextSplitter
from tokenizers import Tokenizer

SHORT = 0.3  # seconds; what takes less is timed three times, here as in bench/chunk.py
Split = Callable[[str], Sequence[object]]


def wordllama_tokenizer() -> str:
    spec = find_spec("wordllama")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "tokenizers" / "l2_supercat_tokenizer_config.json")


def splitters(size: int, overlap: int, tokens: int, token_overlap: int) -> dict[str, Split]:
    """Each as its documentation sets it up. Chonkie's recursive chunker has no overlap; it does less work."""
    characters = {"chunk_size": size, "chunk_overlap": overlap}
    tokenizer = Tokenizer.from_file(wordllama_tokenizer())
    python = RecursiveCharacterTextSplitter.from_language(Language.PYTHON, **characters)
    return {
        "recursive langchain": RecursiveCharacterTextSplitter(**characters).split_text,
        "recursive semantic-text-splitter": TextSplitter(size, overlap=overlap).chunk_indices,
        "recursive chonkie": RecursiveChunker(tokenizer="character", chunk_size=size).chunk,
        "character chonkie": TokenChunker("character", chunk_size=size, chunk_overlap=overlap).chunk,
        "sentence chonkie": SentenceChunker("character", **characters).chunk,
        "token chonkie": TokenChunker(tokenizer, chunk_size=tokens, chunk_overlap=token_overlap).chunk,
        "token semantic-text-splitter": TextSplitter.from_huggingface_tokenizer(
            tokenizer, tokens, overlap=token_overlap
        ).chunk_indices,
        "markdown langchain": MarkdownTextSplitter(**characters).split_text,
        "markdown semantic-text-splitter": MarkdownSplitter(size, overlap=overlap).chunk_indices,
        "code langchain": python.split_text,
        "code semantic-text-splitter": CodeSplitter(tree_sitter_python.language(), size, overlap=overlap).chunk_indices,
    }


def timed(split: Split, texts: Sequence[str]) -> float:
    started = time.perf_counter()
    for text in texts:
        split(text)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", required=True, type=Path, help="a JSON list of texts")
    parser.add_argument("--only", required=True, help="names of strategies, with commas between them")
    parser.add_argument("--size", required=True, type=int)
    parser.add_argument("--overlap", required=True, type=int)
    parser.add_argument("--tokens", required=True, type=int)
    parser.add_argument("--token-overlap", required=True, type=int)
    args = parser.parse_args()
    texts = json.loads(args.texts.read_text(encoding="utf-8"))
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    only = args.only.split(",")
    speeds = {}
    for name, split in splitters(args.size, args.overlap, args.tokens, args.token_overlap).items():
        if name.split()[0] in only:
            seconds = timed(split, texts)
            if seconds < SHORT:
                seconds = min(seconds, timed(split, texts), timed(split, texts))
            speeds[name] = megabytes / seconds
    print(json.dumps(speeds))


if __name__ == "__main__":
    main()
