"""Memories: stored, read, changed, replaced, reviewed, imported, forgotten."""
