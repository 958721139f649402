"""Arrow columns of Python values without `pa.array`, which looks for pandas: to import it takes 0.2 s and 40 MB.

So do `to_numpy`, and values of Python that are given to `pyarrow.compute`; scalars of Arrow are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from rag_assets.printing import counted

_MOST_BYTES = (1 << 31) - 1  # of all texts of an array


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The values as a column of strings, each of which may be None, or of numbers."""
    return strings(values) if kind == pa.string() else numbers(values, kind)


def strings(values: Sequence[str | None]) -> pa.Array:
    """A column of strings.

    Raises:
        UnicodeEncodeError: one of them is not valid Unicode.
        OverflowError: they take 2 GiB or more.
    """
    encoded = [b"" if value is None else value.encode() for value in values]
    ends = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(one) for one in encoded], out=ends[1:])
    if ends[-1] > _MOST_BYTES:
        raise OverflowError(f"{counted(int(ends[-1]), 'byte does', 'bytes do')} not fit into one column")
    validity = None
    if None in values:
        validity = pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))
    offsets, data = pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(encoded))
    return pa.Array.from_buffers(pa.string(), len(encoded), [validity, offsets, data])


def numbers(values: ArrayLike, kind: pa.DataType) -> pa.Array:
    """A column of numbers of a primitive type, from values of any shape in their order."""
    array = np.ascontiguousarray(values, dtype=kind.to_pandas_dtype()).reshape(-1)
    return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(array)])


def as_numpy(array: pa.Array) -> NDArray[Any]:
    """The numbers of a column without nulls, in its own memory: read-only."""
    kind = np.dtype(array.type.to_pandas_dtype())
    data = array.buffers()[1]
    if not len(array):
        return np.empty(0, kind)
    return np.frombuffer(data, kind, len(array), array.offset * kind.itemsize)
