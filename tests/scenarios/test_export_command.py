"""`engramq export` and `engramq import` of what it wrote, as agents notice it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engramq.schemas.command_line import ExitCode
from engramq.schemas.settings import Settings
from tests.conftest import Database
from tests.scenarios.stage import Agent, Stage, agent_of, stage_settings, until
from tests.terminal import run_command, set_servers
from tests.workers.tenants.tables import HALF, furnish

pytestmark = pytest.mark.timeout(300)

TOPICS = ("pump", "vault", "garden", "orchestra", "harbour", "telescope")
QUERIES = (*TOPICS, "what the pump costs", "music in the harbour", "Ada", "in May 2023")
MEMORIES = 2_000  # of a namespace that takes a second or more to restore
LARGE = 5_000  # memories of LARGE_CHARS characters each
LARGE_CHARS = 30_000
RSS_MB = 200  # with all of their 150 MB in memory it would be more
# The most memory in MB, of this program alone: what getrusage tells begins with that of the process that started it.
RUN = (
    "import pathlib, re, sys; from engramq.deploy.cli import main; code = main(sys.argv[1:]); "
    "told = pathlib.Path('/proc/self/status').read_text(); "
    "print(int(re.search(r'VmHWM:\\s+(\\d+)', told)[1]) // 1024); sys.exit(code)"
)


@pytest.fixture
def settings(database: Database, redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    settings = stage_settings(database, redis_url, key_prefix)
    set_servers(settings, monkeypatch)
    return settings


async def lived_in(agent: Agent) -> None:
    """Fill a namespace as agents do."""
    lives = {"source_name": "Ada", "relation": "LIVES_IN"}
    await agent.call("graph_add_edge", **lives, target_name="London", valid_from="2020-01-01", valid_until="2023-05-31")
    await agent.call("graph_add_edge", **lives, target_name="Paris", valid_from="2023-06-01")
    ids = [
        (await agent.store(f"The {topic} costs {number} pounds, says Ada", occurred_at=f"2023-05-{number + 1:02}"))[
            "id"
        ]
        for number, topic in enumerate(TOPICS * 3)
    ]
    await agent.store("Kept apart about the vault", source_type="web", partition="untrusted")
    await agent.call("connect", source=ids[0], target=ids[1], relation="supports", note="both of iron")
    newer = await agent.store("The pump costs 99 pounds now", valid_from="2024-01-01")
    await agent.call("supersede_memory", old_memory_id=ids[6], new_memory_id=newer["id"])
    await agent.call("forget_memory", memory_id=ids[7])
    await agent.call("record_outcome", memory_ids=ids[2:4], success=True)
    await agent.search("pump")


async def answers(agent: Agent) -> list[Any]:
    """Return what searches and the graph answer, without what the clock changes."""
    told: list[Any] = [
        [(memory["id"], pytest.approx(memory["score"], abs=1e-3)) for memory in await agent.search(query, limit=20)]
        for query in QUERIES
    ]
    told += [[memory["id"] for memory in await agent.search("pump", include_superseded=True, limit=50)]]
    told += [[memory["id"] for memory in await agent.search("vault", partitions=["untrusted"])]]
    for when in ({}, {"as_of": "2021-07-01"}, {"as_of": "2023-07-01"}):
        told.append((await agent.call("graph_list_edges", node_name="Ada", **when))["edges"])
    return told


@asynccontextmanager
async def settled(stage: Stage, database: Database, namespace: str) -> AsyncIterator[Agent]:
    """Wait until nothing is unfinished there, then connect an agent."""

    async def finished() -> bool:
        rows = database.rows(
            "select 1 from memories where tenant = tenant_of(%s) and (state = 'pending' or sector_source is null "
            "and sector is null and state = 'active' or links_made_at is null and state = 'active' "
            "and superseded_by is null and verification <> 'rejected')",
            namespace,
        )
        return not rows

    await until(finished, bound_s=60)
    async with agent_of(await stage.gateway(), namespace) as agent:
        yield agent


@pytest.mark.promise("IM-5", "TI-6")
@pytest.mark.long
async def test_a_restored_namespace_gives_the_same_answers_in_the_same_order(
    stage: Stage, database: Database, tmp_path: Path
) -> None:
    async with agent_of(await stage.gateway(), "acme") as agent:
        await lived_in(agent)
    async with settled(stage, database, "acme") as agent:
        with_vectors, without = tmp_path / "with.jsonl", tmp_path / "without.jsonl"
        assert await run_command("export", "--namespace", "acme", "--embeddings", str(with_vectors)) == ExitCode.DONE
        assert await run_command("export", "--namespace", "acme", str(without)) == ExitCode.DONE
        assert await run_command("import", str(with_vectors), "--namespace", "copy") == ExitCode.DONE
        assert await run_command("import", str(without), "--namespace", "embedded anew") == ExitCode.DONE
        expected = await answers(agent)
        assert all(expected)
    for namespace in ("copy", "embedded anew"):
        async with settled(stage, database, namespace) as agent:
            assert await answers(agent) == expected, namespace


@contextmanager
def filled(database: Database, memories: int, chars: int = 200) -> Iterator[None]:
    """Fill the namespace `big` with memories and links past every worker."""
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        tenant = furnish(owner, "big")
        owner.execute(
            """
            with given as (
                select (lpad(to_hex(n), 12, '0') || '70008000000000000000')::uuid as id, n
                from generate_series(1, %(memories)s) n
            ), node as (
                insert into nodes (id, tenant, label, partition, external_id)
                select id, %(tenant)s, 'Memory', 'trusted', 'big-' || n from given
            ), linked as (
                insert into edges (id, tenant, layer, source_id, target_id, relation, weight, origin)
                select gen_random_uuid(), %(tenant)s, 'association', id, lead(id, 1, null) over (order by id),
                    'similar', 0.5, 'similarity'
                from given order by id limit %(memories)s - 1
            )
            insert into memories (
                node_id, partition, tenant, content, confidence, source, verification, state, lexemes, created_by,
                embedding, model_id, load_id, links_made_at
            )
            select given.id, 'trusted', %(tenant)s, 'Note ' || n || repeat(' and so on', %(chars)s / 10), 1,
                'extracted', 'unverified', 'active', memory_lexemes(%(tenant)s, 'Note ' || n, null, null), 'ada',
                %(half)s::halfvec, l.model_id, l.id, now()
            from given, loads l
            where l.tenant = %(tenant)s
            """,
            {"tenant": tenant.number, "memories": memories, "chars": chars, "half": HALF},
        )
    yield


def started(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", RUN, *arguments], stdout=subprocess.PIPE, text=True, env=os.environ)


@pytest.mark.promise("IM-5")
@pytest.mark.long
async def test_killed_in_the_middle_the_same_file_finishes_to_an_equal_store(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    file, again = tmp_path / "big.jsonl", tmp_path / "again.jsonl"
    with filled(database, MEMORIES):
        assert await run_command("export", "--namespace", "big", "--audit", "--embeddings", str(file)) == ExitCode.DONE
    writing = (
        "select pid from pg_stat_activity "
        "where datname = current_database() and application_name like 'engramq-worker%%' and backend_xid is not null"
    )
    with started("import", str(file), "--namespace", "copy") as importing:

        async def is_writing() -> bool:
            assert importing.poll() is None, "it ended before it could be killed"
            return bool(database.rows(writing))

        await until(is_writing, bound_s=60)
        importing.send_signal(signal.SIGKILL)
        importing.wait(20)

    async def is_gone() -> bool:
        return not database.rows(writing)

    await until(is_gone)
    assert database.rows("select 1 from nodes where tenant = tenant_of('copy') limit 1") == [], "half a namespace"
    assert await run_command("import", str(file), "--namespace", "copy") == ExitCode.DONE
    assert await run_command("export", "--namespace", "copy", "--audit", "--embeddings", str(again)) == ExitCode.DONE
    before, after = file.read_bytes().splitlines(), again.read_bytes().splitlines()
    assert after[1:-2] == before[1:-1]
    assert await run_command("import", str(file), "--namespace", "copy") == ExitCode.FAILED, "it is not empty any more"


@pytest.mark.long
@pytest.mark.promise("IM-5")
async def test_exports_and_restorations_need_little_memory_however_much_there_is(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "big.jsonl"
    with filled(database, LARGE, LARGE_CHARS):
        for arguments in (
            ("export", "--namespace", "big", "--embeddings", str(file)),
            ("import", str(file), "--namespace", "copy"),
        ):
            with started(*arguments) as child:
                told, _ = await asyncio.to_thread(child.communicate)
            assert child.returncode == 0
            assert int(told.split()[-1]) < RSS_MB, (arguments[0], told)
