"""Models that judge how well a passage answers a query: they read both, which a search cannot afford for all."""
