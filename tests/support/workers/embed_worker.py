"""An ingest in a process of its own, which a test may kill. Prints what was embedded.

Run as a script with the database's URL, tenant, bot and profile.
"""

from __future__ import annotations

import json
import sys

from rag_assets.ingest.run import ingest
from rag_assets.store.database import Database


def main(url: str, tenant: str, bot: str, profile: str) -> None:
    report = ingest(Database(url), tenant, bot, profile)
    counts = {"embedded": report.embeddings.embedded, "cache_hits": report.embeddings.cache_hits}
    print(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
