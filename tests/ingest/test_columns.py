from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.ingest.columns import as_numpy, column, numbers, strings
from rag_assets.store.database import Database

texts = st.text(st.characters(codec="utf-8"))


@settings(deadline=None)
@given(st.lists(st.none() | texts))
def test_columns_of_strings_are_those_that_pyarrow_makes(values: list[str | None]) -> None:
    made = strings(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.string()))
    assert column(tuple(values), pa.string()).equals(made)


@settings(deadline=None)
@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_columns_of_numbers_are_those_that_pyarrow_makes_and_come_back(values: list[int]) -> None:
    for kind in (pa.int32(), pa.int64()):
        made = column(values, kind)
        made.validate(full=True)
        assert made.equals(pa.array(values, kind))
        assert as_numpy(made.slice(1)).tolist() == values[1:]


def test_vectors_are_a_column_in_their_order_whatever_their_memory_is() -> None:
    vectors = np.arange(12, dtype=np.float64).reshape(3, 4).T
    assert numbers(vectors, pa.float32()).to_pylist() == vectors.reshape(-1).tolist()


def test_a_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        strings(["a", "\ud800"])


def test_an_ingest_does_not_load_pandas(database: Database, root: Path) -> None:
    (root / "a.md").write_text("# Refunds\n\nAsk for one within 14 days.")
    program = (
        "import sys\n"
        "from rag_assets import Database, ingest\n"
        "report = ingest(Database(sys.argv[1]), 'acme', 'support', 'static-64', [sys.argv[2]])\n"
        "print(report.publication.chunks_written, sorted({'pandas', 'ranx'} & set(sys.modules)))\n"
    )
    words = [sys.executable, "-c", program, database.url, str(root)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "1 []"
