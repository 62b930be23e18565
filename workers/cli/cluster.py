"""What `engramq backup` and `engramq restore` ask of the database cluster and of its migrations."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from engramq.schemas.command_line import CommandFailed
from engramq.workers.db.backup import Cluster, log_kept
from engramq.workers.db.readiness import NotReady, packaged

__all__ = ["Cluster", "newest_schema", "saving"]


@contextmanager
def saving(database_url: str) -> Iterator[Cluster]:
    """Have the server keep what a base backup needs for as long as the block lasts; yields what is saved.

    Raises CommandFailed when the database is not fit.
    """
    kept = log_kept(database_url)
    with asyncio.Runner() as runner:
        try:
            cluster = runner.run(kept.__aenter__())
        except NotReady as problem:
            raise CommandFailed(str(problem)) from None
        try:
            yield cluster
        finally:
            runner.run(kept.__aexit__(None, None, None))


def newest_schema() -> int:
    """Return the number of the last migration that this release knows."""
    return packaged().version
