"""What is erased leaves nothing in a home, once the documented steps are done: every file is searched for a word."""

import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engramq.deploy.local.embedded.postgres import OWNER_ROLE, Postgres
from engramq.deploy.local.home import Home
from tests.scenarios.stage import MODERN, Agent
from tests.stack.test_whole_stack import Installation, installation

__all__ = ["installation"]
pytestmark = pytest.mark.timeout(300)

SAID = "Zwetschkenknoedel"  # no other text has it
WORD = b"zwetschkenknoed"  # its stem, as indexes hold it
KEPT = "The kettle in the kitchen is blue"


@pytest.fixture
def home(installation: Installation) -> Home:
    installation.environment["ENGRAMQ_EMBEDDER"] = "hash"
    return Home(Path(installation.environment["ENGRAMQ_HOME"]))


def places(home: Home) -> Counter[str]:
    """Return in how many files of each folder the word stands, in whatever case, compressed logs included."""
    found: Counter[str] = Counter()
    for path, data in contents(home):
        if WORD in data.lower():
            parts = path.relative_to(home.path).parts[:-1]
            found["/".join(parts[:3])] += 1
    return found


def contents(home: Home) -> Iterator[tuple[Path, bytes]]:
    for path in home.path.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield path, gzip.decompress(data) if path.suffix == ".gz" else data


def write_out(home: Home) -> None:
    """Have PostgreSQL renew its statistics, which quote what is stored, and write what is in memory to its files."""
    with psycopg.connect(Postgres(home).url(OWNER_ROLE), autocommit=True) as owner:
        owner.execute("analyze")
        owner.execute("checkpoint")


async def talk(agent: Agent) -> list[str]:
    """Store, link, review and use memories that say the word; return the ids of these."""
    kept = (await agent.store(KEPT))["id"]
    texts = [f"The recipe for {SAID}, number {number}, takes {number} plums" for number in range(30)]
    long = f"{SAID} " + " ".join(f"word{number}" for number in range(3000))
    ids: list[str] = [(await agent.store(text, metadata={"dish": SAID}))["id"] for text in (*texts, long)]
    notes: dict[str, Any] = {"relation": "supports", "note": f"Both are {SAID}"}
    await agent.call("connect", source=ids[0], target=kept, **notes)
    await agent.call("disconnect", source=ids[0], target=kept, reason=f"No more {SAID}")
    await agent.call("connect", source=ids[1], target=kept, **notes)
    await agent.call("record_outcome", memory_ids=[ids[0], kept], signal=0.9, note=f"{SAID} helped")
    await agent.call("verify_memory", memory_id=ids[2], verification="verified", reason=f"{SAID} it is")
    await agent.call("supersede_memory", old_memory_id=ids[3], new_memory_id=ids[4])
    await agent.call("update_memory", memory_id=ids[5], metadata={"more": SAID})
    await agent.call("forget_memory", memory_id=ids[6], reason=f"Not {SAID}")
    await agent.search(f"How are {SAID} made?")
    return ids


@pytest.mark.promise("OV-18", "MT-19")
async def test_what_is_erased_is_in_no_file_of_the_home_after_the_documented_steps(
    installation: Installation, home: Home
) -> None:
    async with installation.client(MODERN, "--principal", "cook", "--tools", "full") as client:
        agent = Agent(client)
        ids = await talk(agent)
        fact = {"source_name": "Ada", "target_name": SAID, "relation": "COOKS", "properties": {"dish": SAID}}
        await agent.call("graph_add_edge", **fact)
        write_out(home)
        before = places(home)
        assert {"postgres/data/base", "postgres/data/pg_wal", "redis/appendonlydir"} <= set(before), before

        for memory_id in ids[:8]:
            body = await agent.call("forget_memory", memory_id=memory_id, erase=True, reason="He asked for it")
            assert body["status"] == "erased", body
        purged = installation.run("purge", "--created-by", "cook", "--yes", "--reason", "He asked for it")
        assert purged.returncode == 0, purged.stderr
        left = places(home)
        assert set(left) >= {"postgres/data/base", "postgres/data/pg_wal", "redis/appendonlydir"}, left

        rewritten = installation.run("purge", "--rewrite")

        assert rewritten.returncode == 0, rewritten.stderr
        assert b"memories_trusted" in rewritten.stderr
        assert places(home) == Counter()
        await agent.store(KEPT)
        assert [memory["content"] for memory in await agent.search("Which kettle is blue?")] == [KEPT]


@pytest.mark.promise("OV-18")
async def test_a_stop_takes_what_was_erased_out_of_the_append_only_file(installation: Installation, home: Home) -> None:
    async with installation.client(MODERN) as client:
        agent = Agent(client)
        stored = await agent.store(f"The recipe for {SAID}")
        await agent.call("forget_memory", memory_id=stored["id"], erase=True)
        assert places(home)["redis/appendonlydir"]
    assert installation.run("down").returncode == 0
    assert not places(home)["redis/appendonlydir"]
    assert not places(home)["logs"]
