"""The commands of `rag`, one file per subject.

Each imports what it needs when it is called: a search must not wait for Dagster, and `--help` for nothing.
"""
