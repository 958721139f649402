"""`rag serve`: searches over HTTP, each with a token that stands for one scope."""
