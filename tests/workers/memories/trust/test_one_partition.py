"""A memory is in one partition at every moment, whoever writes past the code; the page on partitions says the same."""

import asyncio
import re

import psycopg
import pytest
from msgspec import UNSET, UnsetType

from engramq.schemas.commands import NewMemory
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode
from engramq.schemas.vocabulary import ALL_SCOPES, UNTRUSTED_WARNING, SourceType, Verification
from engramq.workers.trust import TRUSTED_WHEN_VOUCHED_FOR, route
from tests.architecture.source import ROOT
from tests.refusals import refused
from tests.workers.conftest import World

COPY = """
    insert into memories
        (node_id, tenant, partition, content, confidence, source, verification, state, lexemes, created_by)
    select node_id, tenant, {partition}, content, confidence, source, verification, 'pending', lexemes, created_by
    from memories
"""
MOVE = """
    with moved as (
        update nodes set partition = case partition when 'trusted' then 'untrusted' else 'trusted' end
        returning tenant, id, partition
    )
    update memories m set partition = moved.partition from moved where m.tenant = moved.tenant and m.node_id = moved.id
"""
MOVES = 60


async def researched(world: World) -> None:
    await world.keep("Geese fly south", source_type="research", verification=Verification.VERIFIED)


@pytest.mark.promise("TP-16")
@pytest.mark.parametrize(
    "statement",
    [
        COPY.format(partition="'trusted'"),
        COPY.format(partition="partition"),
        "update memories set partition = 'trusted'",
        "update nodes set partition = 'trusted'",
        "update memories set tenant = make_tenant('elsewhere')",
        "update nodes set tenant = make_tenant('elsewhere')",
    ],
)
async def test_there_is_no_second_copy_and_no_half_of_a_move(world: World, statement: str) -> None:
    await researched(world)
    with pytest.raises(psycopg.errors.IntegrityError):
        world.rows(statement)
    assert world.rows("select partition from memories") == [{"partition": "untrusted"}]


@pytest.mark.promise("TP-20")
async def test_readers_see_one_copy_while_it_moves(world: World) -> None:
    await researched(world)
    moving, seen = True, []

    async def read() -> None:
        async with await psycopg.AsyncConnection.connect(world.database.owner_url, autocommit=True) as connection:
            while moving:
                cursor = await connection.execute("select count(*) from memories")
                seen.extend(await cursor.fetchall())

    async def move() -> None:
        nonlocal moving
        async with await psycopg.AsyncConnection.connect(world.database.owner_url, autocommit=True) as connection:
            for _ in range(MOVES):
                await connection.execute(MOVE.encode())
        moving = False

    async with asyncio.timeout(30):
        await asyncio.gather(read(), read(), move())
    assert set(seen) == {(1,)}
    assert len(seen) > MOVES


PAGE = (ROOT / "docs" / "partitions.md").read_text(encoding="utf-8")
OWNER = Principal(name="owner", scopes=ALL_SCOPES)


def table() -> list[tuple[str, set[str], str]]:
    """Return the rows of the router's table: source types, verifications, partition."""
    section = PAGE.partition("## The router")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return [(types, set(re.findall(r"`(\w+)`", words)), goes_to) for types, words, goes_to in rows[2:]]


@pytest.mark.promise("TP-26")
def test_the_page_has_model_router_promotion_and_warning() -> None:
    for heading in ("Model", "The router", "Promotion", "The warning"):
        assert f"\n## {heading}\n" in PAGE
    assert UNTRUSTED_WARNING in PAGE
    for word in ("memory_promote_to_trusted", "verify_memory", "record_not_verified", "already_trusted"):
        assert word in PAGE


@pytest.mark.promise("TP-26")
@pytest.mark.parametrize("verification", Verification)
def test_the_table_of_the_page_is_what_the_router_does(verification: Verification) -> None:
    own, research, vouched, unvouched, others, untrusted = table()
    assert set(re.findall(r"`(\w+)`", vouched[0])) == TRUSTED_WHEN_VOUCHED_FOR
    assert (vouched[1] | unvouched[1], vouched[1] & unvouched[1]) == (set(Verification), set())
    rows: dict[str | UnsetType, tuple[str, set[str], str]] = {
        UNSET: own,
        SourceType.RESEARCH: research,
        **dict.fromkeys(TRUSTED_WHEN_VOUCHED_FOR, vouched if verification in vouched[1] else unvouched),
        "rumour": others,
    }
    for source_type, row in rows.items():
        memory = NewMemory(content="x", source_type=source_type, verification=verification)
        assert route(memory, OWNER) == row[2]
        stranger = Principal(name="stranger", scopes=ALL_SCOPES, untrusted=True)
        if verification is Verification.UNVERIFIED:
            assert route(memory, stranger) == untrusted[2]
        else:
            with refused(FaultCode.FORBIDDEN):
                route(memory, stranger)
