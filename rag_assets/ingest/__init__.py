"""The stages of ingestion as plain functions: sources, chunks, embeddings, publication.

Dagster assets call them one by one with Parquet in between; `run.ingest` calls them in a row.
"""
