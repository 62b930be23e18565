"""A memory is in one partition at every moment, whoever writes past the code that moves it."""

import asyncio

import psycopg
import pytest

from engramq.schemas.vocabulary import Verification
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
