"""Agents go on while an import holds all that imports may hold. How fast is measured by `python -m bench.all`."""

import asyncio
import json
from pathlib import Path

import psycopg
import pytest

from engramq.deploy.cli import main
from engramq.schemas.command_line import ExitCode
from engramq.schemas.settings import Settings
from tests.conftest import Database
from tests.scenarios.stage import Agent, until

pytestmark = pytest.mark.promise("QP-13")

ROWS = 1_000
CALLS = 20
BOUND_S = 10.0  # for all calls together; an import that hangs would keep them waiting for minutes


@pytest.mark.long
async def test_calls_are_answered_while_every_batch_of_an_import_hangs(
    agent: Agent, settings: Settings, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAMQ_REDIS_URL", settings.redis_url)
    monkeypatch.setenv("ENGRAMQ_KEY_PREFIX", settings.key_prefix)
    file = tmp_path / "many.jsonl"
    file.write_text("".join(json.dumps({"content": f"Shelf {n} holds jar {n}."}) + "\n" for n in range(ROWS)))
    await agent.store("Ada keeps the heliotrope seeds in the green tin.")

    async def waiting() -> int:
        (row,) = database.rows(
            "select count(*) as n from pg_locks where not granted and relation = 'imported_rows'::regclass "
            "and database = (select oid from pg_database where datname = current_database())"
        )
        return int(row["n"])

    async def hanging() -> bool:
        return await waiting() > 0

    async with await psycopg.AsyncConnection.connect(database.owner_url) as blocker:
        await blocker.execute("lock table imported_rows in access exclusive mode")
        importing = asyncio.create_task(asyncio.to_thread(main, ["import", str(file)]))
        try:
            await until(hanging)
            async with asyncio.timeout(BOUND_S):
                for number in range(CALLS):
                    assert "heliotrope" in (await agent.found("Where are the heliotrope seeds?"))[0]
                    await agent.store(f"Note {number} made while the import hangs.")
            assert await waiting() > 0
            assert not importing.done()
        finally:
            await blocker.rollback()
    assert await asyncio.wait_for(importing, 60.0) == ExitCode.DONE
    (row,) = database.rows("select count(*) as n from memories")
    assert row["n"] == ROWS + CALLS + 1
