"""The doors: everything through which others reach the retrievers."""
