"""Carry commands out in PostgreSQL: the process of the workers, and a slice for each feature."""
