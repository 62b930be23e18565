"""Run the PostgreSQL and the Redis-protocol server that come with engramq, as child processes."""
