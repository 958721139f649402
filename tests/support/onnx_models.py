"""Small models in ONNX, written byte by byte: making them takes no library that the product does without.

A model is a protocol buffer; the numbers of its fields are those of onnx.proto.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOAT, INT64 = 1, 7  # TensorProto.DataType
_INT, _INTS = 2, 7  # AttributeProto.AttributeType
WORDS = ["pump", "valve", "warranty", "years", "five", "how", "long", "is", "the", "door", "week", "##s", "."]
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*_SPECIAL, *WORDS, *(f"word{number}" for number in range(46))]
DIMENSIONS = 6
TABLE = np.random.default_rng(7).normal(size=(len(VOCABULARY), DIMENSIONS)).astype(np.float32)


def _varint(value: int) -> bytes:
    done = bytearray()
    while value > 127:
        done.append(value & 127 | 128)
        value >>= 7
    return bytes([*done, value])


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: int | Sequence[int]) -> bytes:
    """One operation of a graph."""
    parts = [_field(1, name) for name in inputs] + [_field(2, name) for name in outputs] + [_field(4, kind)]
    for name, value in attributes.items():
        given = _field(3, value) if isinstance(value, int) else b"".join(_field(8, one) for one in value)
        parts.append(_field(5, _field(1, name) + given + _field(20, _INT if isinstance(value, int) else _INTS)))
    return b"".join(parts)


def value(name: str, shape: Sequence[int | str], kind: int = FLOAT) -> bytes:
    """An input or output; a dimension with a name has any size."""
    sizes = b"".join(_field(1, _field(1, one) if isinstance(one, int) else _field(2, one)) for one in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, sizes)))


def tensor(name: str, array: NDArray[np.float32], elsewhere: str | None = None) -> bytes:
    """Numbers in the file, or in another, which a path names."""
    head = b"".join(_field(1, size) for size in array.shape) + _field(2, FLOAT) + _field(8, name)
    if elsewhere is None:
        return head + _field(9, array.tobytes())
    return head + _field(13, _field(1, "location") + _field(2, elsewhere)) + _field(14, 1)


INPUTS = tuple(value(name, ("batch", "sequence"), INT64) for name in ("input_ids", "attention_mask"))
HIDDEN = value("last_hidden_state", ("batch", "sequence", DIMENSIONS))


def model(
    nodes: Sequence[bytes], numbers: Sequence[bytes], outputs: Sequence[bytes], inputs: Sequence[bytes] = INPUTS
) -> bytes:
    """A whole file."""
    parts = {1: nodes, 5: numbers, 11: inputs, 12: outputs}
    graph = _field(2, "small") + b"".join(_field(number, one) for number, some in parts.items() for one in some)
    return _field(1, 8) + _field(8, _field(1, "") + _field(2, 17)) + _field(7, graph)


def words_model(table: NDArray[np.float32] = TABLE, elsewhere: str | None = None) -> bytes:
    """The vector of a token is its row."""
    gather = node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    return model([gather], [tensor("table", table, elsewhere)], [HIDDEN])


def quantized_model() -> bytes:
    """The same with 8 bits a number and one scale for a whole pass, as dynamic quantization does it."""
    nodes = [
        node("Gather", ["table", "input_ids"], ["rows"]),
        node("DynamicQuantizeLinear", ["rows"], ["small", "scale", "zero"]),
        node("DequantizeLinear", ["small", "scale", "zero"], ["last_hidden_state"]),
    ]
    return model(nodes, [tensor("table", TABLE)], [HIDDEN])


def whole_model() -> bytes:
    """One that takes the mean itself, and says so by the name of its output."""
    nodes = [
        node("Gather", ["table", "input_ids"], ["rows"]),
        node("ReduceMean", ["rows"], ["sentence_embedding"], axes=[1], keepdims=0),
    ]
    return model(nodes, [tensor("table", TABLE)], [value("sentence_embedding", ("batch", DIMENSIONS))])


def write_folder(folder: Path, data: bytes | None = None, **files: Any) -> Path:
    """A folder with a model, as sentence-transformers writes it; `files` are further ones or None, by their names
    with `__` for the slash."""
    usual: Mapping[str, Any] = {
        "vocab.txt": "\n".join(VOCABULARY),
        "1_Pooling/config.json": {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False},
        "sentence_bert_config.json": {"max_seq_length": 16},
    }
    given = {name.replace("__", "/"): content for name, content in files.items()}
    for name, content in {**usual, **given}.items():
        if content is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(words_model() if data is None else data)
    return folder
