"""A transformer in ONNX, run on processors: token numbers in, one vector a text out.

Texts go through it in passes of a bounded number of tokens, each in a thread of one pool for the whole process, which
has as many as the process may use processors (`RAG_ONNX_THREADS`). A pass that is longer than about 256 tokens gains
nothing from another text beside it, and loses the processor's cache; short texts gain half as much again.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from rag_assets.embedding.providers.local_weights import first_line
from rag_assets.embedding.providers.onnx_files import ModelFiles, Pooling
from rag_assets.errors import EmbeddingError, InvalidProfile
from rag_assets.printing import counted

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Vectors = NDArray[np.float32]

_PASS_TOKENS, _PASS_TEXTS = 256, 16
_PADDING = 1.25  # how much longer than the shortest text of a pass its longest may be
_LONG = 2048  # tokens: attention over more takes gigabytes, so that such passes run one at a time
_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
_WHOLE = "sentence_embedding"  # the output by which an export says that it has pooled itself
_ROUNDING = 1e-5  # how far a number may move by the texts beside it and still be the same
_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_FATAL = 4  # ONNX Runtime's severity: what it would print, its errors say as well


@dataclass(frozen=True)
class Tokens:
    """A text as the model reads it: the numbers of its tokens, and of the sentences that they are of."""

    ids: Sequence[int]
    types: Sequence[int]

    @classmethod
    def of(cls, encoding: Encoding) -> Tokens:
        return cls(encoding.ids, encoding.type_ids)


class OnnxModel:
    """One copy of a model's weights.

    Attributes:
        dimensions: of its vectors.
        mixes: whether the vector of a text depends on those that are beside it, as where a graph takes one scale for
            all numbers of a pass (dynamic quantization). Then each text has a pass of its own.
    """

    def __init__(self, files: ModelFiles, name: str) -> None:
        self._name = name
        self._session = _open(files, name)
        self._inputs = {given.name: _number_type(name, given) for given in self._session.get_inputs()}
        self._output, self._pooling = _output(files, name, self._session)
        self.mixes = False
        alone = self._run([_probe(0)])
        self.dimensions = int(alone.shape[1])
        self.mixes = self._is_mixing(alone)

    def vectors(self, texts: Sequence[Tokens], threads: int) -> Vectors:
        """The model's own vectors of texts (n, dimensions), by position, of any length.

        Raises:
            EmbeddingError: the model failed.
        """
        found = np.empty((len(texts), self.dimensions), dtype=np.float32)
        parts = _passes([len(text.ids) for text in texts], 1 if self.mixes else _PASS_TEXTS)

        def run(part: list[int]) -> tuple[list[int], Vectors]:
            return part, self._run([texts[index] for index in part])

        long = [part for part in parts if len(texts[part[0]].ids) > _LONG]
        for some, at_once in ((long, 1), (parts[len(long) :], 2 * threads)):
            for part, vectors in _in_turn(run, some, threads, at_once):
                found[part] = vectors
        return found

    def _run(self, texts: Sequence[Tokens]) -> Vectors:
        lengths = [len(text.ids) for text in texts]
        mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
        values = {
            "input_ids": _rows([text.ids for text in texts], mask),
            "attention_mask": mask,
            "token_type_ids": _rows([text.types for text in texts], mask),
            "position_ids": np.broadcast_to(np.arange(mask.shape[1]), mask.shape),
        }
        given = {name: values[name].astype(kind) for name, kind in self._inputs.items()}
        try:
            (answer,) = self._session.run([self._output], given)
        except Exception as error:  # ONNX Runtime's errors have no class in common
            raise EmbeddingError(f"{self._name} failed in ONNX Runtime: {first_line(error)}") from error
        pooled = answer if self._pooling is None else _pooled(answer, mask, self._pooling)
        if pooled.ndim != 2 or len(pooled) != len(texts):
            raise EmbeddingError(
                f"{self._name} returned an array of shape {answer.shape} for {counted(len(texts), 'text')}"
            )
        return np.asarray(pooled, dtype=np.float32)

    def _is_mixing(self, alone: Vectors) -> bool:
        """Try it: the first text of a pass alone, and with others, longer ones too."""
        try:
            beside = self._run([_probe(number) for number in range(6)])[:1]
        except EmbeddingError:  # an export of one text at a time
            return True
        return not np.allclose(alone, beside, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)


def _probe(number: int) -> Tokens:
    # Numbers that any vocabulary has.
    ids = [1 + (7 * number + 13 * position) % 40 for position in range(8 + 2 * number)]
    return Tokens(ids, [0] * len(ids))


def _passes(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Positions of texts in passes of at most `most`, the longest first."""
    parts: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        longest = lengths[parts[-1][0]] if parts else 0
        fits = parts and (len(parts[-1]) + 1) * longest <= _PASS_TOKENS and longest <= _PADDING * lengths[index]
        if fits and len(parts[-1]) < most:
            parts[-1].append(index)
        else:
            parts.append([index])
    return parts


def _rows(numbers: Sequence[Sequence[int]], mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    rows = np.zeros(mask.shape, dtype=np.int64)
    rows[mask] = [number for row in numbers for number in row]
    return rows


def _pooled(hidden: Any, mask: NDArray[np.bool_], pooling: Pooling) -> Any:
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "lasttoken":
        return hidden[np.arange(len(hidden)), mask.sum(axis=1) - 1]
    if pooling == "max":
        return np.where(mask[:, :, None], hidden, -np.inf).max(axis=1)
    # A product for each text over its own tokens: the sum is the same whatever the pass is padded to.
    sums = [row[own].sum(axis=0, dtype=np.float32) for row, own in zip(hidden, mask, strict=True)]
    return np.stack(sums) / mask.sum(axis=1, dtype=np.float32)[:, None]


def _open(files: ModelFiles, name: str) -> InferenceSession:
    try:
        import onnxruntime as runtime
    except ImportError as error:
        raise EmbeddingError(
            f"the provider onnx needs the package onnxruntime, which does not load: {error}"
        ) from error
    options = runtime.SessionOptions()
    # One processor for each pass, and passes side by side: threads of its own would wait for each other at every
    # layer, and are lost in a forked process.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # it would keep a plan for each length that it has seen
    options.log_severity_level = _FATAL
    try:
        return runtime.InferenceSession(str(files.weights), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # as above
        raise EmbeddingError(f"{name} could not be loaded from {files.weights}: {first_line(error)}") from error


def _number_type(name: str, given: Any) -> Any:
    if given.name not in _INPUTS or given.type not in _TYPES:
        raise InvalidProfile(
            f"model {name}: its graph asks for {given.name!r} ({given.type}), and what it is given are numbers of "
            f"tokens: {', '.join(_INPUTS)}"
        )
    if len(given.shape) != 2 or isinstance(given.shape[1], int):
        raise InvalidProfile(
            f"model {name}: its graph takes {given.name!r} of the shape {given.shape}: export it for any length"
        )
    return _TYPES[given.type]


def _output(files: ModelFiles, name: str, session: Any) -> tuple[str, Pooling | None]:
    """Which output is asked for, and how it becomes a vector; None: it is one."""
    outputs = {output.name: output for output in session.get_outputs()}
    if _WHOLE in outputs:
        return _WHOLE, None
    for output in outputs.values():
        if len(output.shape) == 3 and output.type == "tensor(float)":
            return output.name, files.pooling()
    told = ", ".join(f"{output.name} {output.shape} {output.type}" for output in outputs.values())
    raise InvalidProfile(
        f"model {name}: its graph gives {told}, and neither a float vector of each token (text, token, dimension) nor "
        f"one named {_WHOLE}"
    )


def _in_turn(run: Callable[[Any], Any], parts: Sequence[Any], threads: int, at_once: int) -> Iterator[Any]:
    """The results of all parts. At most `at_once` of them are under way or wait, so that a query gets its turn between
    those of a document run."""
    waiting: deque[Future[Any]] = deque()
    try:
        for part in parts:
            if len(waiting) >= at_once:
                yield waiting.popleft().result()
            waiting.append(_pool(threads).submit(run, part))
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """One for the process, whatever models and callers it has: its threads are waited for when the process ends, so
    that none meets that end within the library."""
    return ThreadPoolExecutor(threads, thread_name_prefix="onnx")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork copies no threads
