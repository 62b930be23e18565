"""Writes the parts of our clients that follow from docs/openapi.json."""
