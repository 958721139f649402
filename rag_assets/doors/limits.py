"""What a caller of a tool may ask for at once, and how much an answer holds at most."""

from __future__ import annotations

from rag_assets.retrieval.limits import MAX_QUERY_CHARS as MAX_QUERY_CHARS

MAX_RESULTS = 50
MAX_FILTER_CHARS = 20_000  # as JSON
MAX_READ_CHARS = 50_000
DEFAULT_READ_CHARS = 8_000
MAX_CONTENT_CHARS = 20_000  # of one result
MAX_ANSWER_CHARS = 100_000  # of all results together
MAX_PLACES = 10  # other places of a text, of one result
MAX_METADATA_CHARS = 4_000  # as JSON, of one result
MAX_INDEXED_CHARS = 1_000_000
MAX_START = 2**31 - 2  # a text is shorter
