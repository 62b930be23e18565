"""A secret in an import or a store reaches neither the queue nor the database, unless the operator wants it kept."""

import gzip
import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.to_thread
import psycopg
import pytest
from redis.asyncio import Redis

from engramq.gateway import service
from engramq.gateway.redaction import Redacted, redact_command
from engramq.schemas.commands import Command
from engramq.schemas.settings import Redact, Settings
from tests.conftest import Database
from tests.gateway.test_redaction import GITHUB, SLACK
from tests.scenarios.stage import Agent, agent_of, stage_settings, staged, with_settings
from tests.terminal import run_command, set_servers

pytestmark = pytest.mark.promise("SE-19")

CONTENT = f"Ada deploys with {GITHUB} from her laptop"
KEPT = "Ada deploys with [redacted: GitHub Token] from her laptop"


def everywhere(database: Database) -> str:
    """Return all rows of all tables as text."""
    with psycopg.connect(database.owner_url) as connection:
        tables = connection.execute(
            "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        rows = [connection.execute(f"SELECT t::text FROM {name} t".encode()).fetchall() for (name,) in tables]
    return json.dumps(rows)


async def in_redis(settings: Settings) -> bytes:
    """Return every value below the prefix and of the jobs, as bytes."""
    found = b""
    async with Redis.from_url(settings.redis_url) as redis:
        async for key in redis.scan_iter():
            found += await redis.dump(key) or b""
    return found


async def test_an_import_leaves_secrets_out_and_says_how_many(
    agent: Agent,
    settings: Settings,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "memories.jsonl"
    address = f"https://x-access-token:{GITHUB}@github.com/ada/laptop"
    rows = [
        {"content": CONTENT, "metadata": {"token": GITHUB}},
        {"content": "Bob likes tea", "external_id": "b"},
        {"content": "Ada keeps her laptop's set-up there", "evidence": [{"url": address}]},
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    set_servers(settings, monkeypatch)
    for stored in (3, 0):  # the same file again is the same, whatever was left out
        assert await run_command("import", file) == 0
        shown = capsys.readouterr()
        assert f"stored {stored}" in shown.out
        assert "3 secrets were left out, each marked in its place" in shown.err
    memories = {memory["content"]: memory for memory in (await agent.call("list_recent_memories"))["memories"]}
    assert memories.keys() == {KEPT, "Bob likes tea", "Ada keeps her laptop's set-up there"}
    assert memories[KEPT]["metadata"] == {"token": "[redacted: GitHub Token]"}
    assert GITHUB not in everywhere(database)
    assert GITHUB.encode() not in await in_redis(settings)

    monkeypatch.setenv("ENGRAMQ_REDACT", "off")
    assert await run_command("import", file) == 0
    shown = capsys.readouterr()
    assert "stored 0  skipped 3" in shown.out, "the same file again is the same, whatever the setting"
    assert "left out" not in shown.err

    file.write_text(json.dumps({"content": CONTENT, "tags": ["new"]}))
    for redact, stored in (("off", 1), ("imports", 0)):
        monkeypatch.setenv("ENGRAMQ_REDACT", redact)
        assert await run_command("import", file) == 0
        assert f"stored {stored}" in capsys.readouterr().out
    assert CONTENT in await agent.recent()


async def test_no_way_into_the_store_passes_the_redaction_by(
    settings: Settings,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table, packed, long = (tmp_path / name for name in ("rows.csv", "rows.jsonl.gz", "rows.jsonl"))
    metadata = {"token": GITHUB}
    table.write_text(f'content;metadata;tags\n{CONTENT};"{{""token"": ""{GITHUB}""}}";{SLACK}\n')
    packed.write_bytes(gzip.compress(json.dumps({"content": f"Again: {CONTENT}", "metadata": metadata}).encode()))
    long.write_text(json.dumps({"content": f"{'word ' * 6_540}{CONTENT}. {'more ' * 500}", "metadata": metadata}))
    set_servers(settings, monkeypatch)
    async with staged(settings):
        for stored, arguments in ((1, [str(table)]), (1, [str(packed)]), (2, ["--split", str(long)])):
            assert await run_command("import", *arguments) == 0
            assert f"stored {stored}" in capsys.readouterr().out
        kept = everywhere(database)
        assert kept.count("Ada deploys with [redacted: GitHub Token] from her laptop") >= 3
        assert GITHUB not in kept
        assert SLACK not in kept
        assert GITHUB.encode() not in await in_redis(settings)


@pytest.mark.parametrize("redact", ["imports", "all"])
async def test_a_store_keeps_or_leaves_out_secrets_as_the_setting_says(
    database: Database, redis_url: str, key_prefix: str, redact: str
) -> None:
    settings = stage_settings(database, redis_url, key_prefix, redact=redact)
    async with staged(settings) as stage, agent_of(await stage.gateway()) as agent:
        body = await agent.call("store_memory", content=CONTENT, idempotency_key="once")
        again = await agent.call("store_memory", content=CONTENT, idempotency_key="once")
        assert again["stored"] == body["stored"]
        if redact == "imports":
            assert body["stored"]["content"] == CONTENT
            assert "notice" not in body
        else:
            assert body["stored"]["content"] == KEPT
            assert body["notice"].endswith("each marked in its place: 1.")
            assert GITHUB not in everywhere(database)
            assert "notice" not in await agent.call("store_memory", content="Nothing secret here")


@with_settings(redact="all")
async def test_who_looks_for_secrets_takes_no_thread_of_others(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commands at once at most, and the threads that everything else shares stay free."""
    inside = threading.Semaphore(service.REDACTING_THREADS)
    seen: list[tuple[bool, int]] = []

    def looked(command: Command, wanted: Redact, go_on: Callable[[], object]) -> Redacted:
        is_free = inside.acquire(blocking=False)
        seen.append((is_free, anyio.from_thread.run_sync(_threads_of_others)))
        try:
            return redact_command(command, wanted, go_on)
        finally:
            if is_free:
                inside.release()

    monkeypatch.setattr(service, "redact_command", looked)
    async with anyio.create_task_group() as group:
        for number in range(12):
            group.start_soon(partial(agent.call, "store_memory", content=f"Note {number}"))
    assert seen == [(True, 0)] * 12


def _threads_of_others() -> int:
    return anyio.to_thread.current_default_thread_limiter().borrowed_tokens
