"""The commands of `rag`, one file per subject.

Each is imported when it is called: a search must not wait for Dagster, and `--help` for nothing.
"""
