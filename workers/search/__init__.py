"""Searching memories: candidates, their ranking, and what is shown."""
