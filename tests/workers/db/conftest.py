"""A database that seems to have a pooler before it."""

from typing import NoReturn

import psycopg
import pytest

from engramq.workers.db.pool import Pool


@pytest.fixture
def behind_a_pooler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each session asked for as through a pooler: what a worker asks of a session of its own is refused."""

    async def refuse(_pool: Pool) -> NoReturn:
        raise psycopg.OperationalError("unsupported startup parameter: options")

    monkeypatch.setattr(Pool, "_direct", refuse)
