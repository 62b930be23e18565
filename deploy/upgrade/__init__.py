"""A home whose PostgreSQL is older than the one that this release brings: its data, moved."""
