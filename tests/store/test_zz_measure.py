from __future__ import annotations

import time

from tests.store.test_limits import *
from tests.store.test_limits import _gate, _of, _work


def test_measure(tenants):
    for t in ("acme", "bolt"):
        set_rate_limit(tenants, RateLimit(t, "hash", None, items=1000000, tokens=None))
    set_rate_limit(tenants, RateLimit(None, "hash", None, items=10000000, tokens=None))
    with _gate(tenants) as g:
        g.acquire(1, 1)
        t = time.perf_counter()
        for _ in range(200):
            g.acquire(1, 1)
        print("ms per acquire", (time.perf_counter() - t) * 5)
        for _ in range(2000):
            g.acquire(1, 1)
        t = time.perf_counter()
        for _ in range(100):
            g.acquire(1, 1)
        print("ms per acquire with 2300 in window", (time.perf_counter() - t) * 10)
    for t in (None, "acme", "bolt"):
        clear_rate_limit(tenants, t, "hash")
    for t in ("acme", "bolt"):
        set_rate_limit(tenants, RateLimit(t, "hash", None, items=100, tokens=None))
    with tenants.connect() as c:
        c.execute("delete from rag.rate_requests")
    sent = _work(tenants, ["acme", "acme", "bolt", "bolt"], (5, 20), 75)
    for t in ("acme", "bolt"):
        m = _of(sent, t)
        print(
            t,
            "busiest 60s",
            busiest(m, 60),
            "total",
            sum(o.items for o in m),
            "requests",
            len(m),
            "first..last",
            m[-1].at - m[0].at,
        )
    for t in ("acme", "bolt"):
        clear_rate_limit(tenants, t, "hash")
    with tenants.connect() as c:
        c.execute("delete from rag.rate_requests")
    set_rate_limit(tenants, RateLimit(None, "hash", None, items=40, tokens=None, per_seconds=2))
    sent = _work(tenants, ["acme", "acme", "acme", "bolt"], (4,), 15)
    print("account busiest", busiest(sent, 2), {t: sum(o.items for o in _of(sent, t)) for t in ("acme", "bolt")})
