"""How a namespace keeps what is private: its default, and whether administrators read it (PV-3, PV-5)."""

import pytest

from engramq.schemas.commands import (
    GetMemory,
    ListRecentMemories,
    MemoryFound,
    MemoryList,
    MemoryStats,
    SearchMemories,
    Stats,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.vocabulary import ALL_SCOPES, DEFAULT_NAMESPACE, Scope, Visibility
from engramq.workers.db.privacy import change_privacy
from tests.workers.conftest import World

pytestmark = pytest.mark.anyio

ADA = Principal(name="ada", scopes=(Scope.READ, Scope.WRITE))
BOB = Principal(name="bob", scopes=(Scope.READ, Scope.WRITE))
ROOT = Principal(name="root", scopes=ALL_SCOPES)
SHADE = Principal(name="root", scopes=ALL_SCOPES, untrusted=True)


async def reads(world: World, who: Principal, memory_id: str) -> bool:
    """Say whether somebody reads a memory, by its id and in a list."""
    found = await world.ask(MemoryFound, GetMemory(memory_id=memory_id), principal=who)
    listed = await world.ask(MemoryList, ListRecentMemories(), principal=who)
    in_list = memory_id in {memory.id for memory in listed.memories}
    assert (found.memory is not None) is in_list
    return in_list


@pytest.mark.promise("PV-5")
async def test_administrators_count_what_is_private_and_read_it_only_where_everybody_sees_so(world: World) -> None:
    private = (await world.keep("The heron nests by the pond", principal=ADA, visibility=Visibility.PRIVATE)).stored.id
    counted = await world.ask(Stats, MemoryStats(), principal=ROOT)
    assert (counted.memories, counted.private["of_others"], counted.private["admins_read"]) == (0, 1, False)
    assert [await reads(world, who, private) for who in (ADA, BOB, ROOT, SHADE)] == [True, False, False, False]
    await world.store.write(DEFAULT_NAMESPACE, lambda tx: change_privacy(tx, admins_read=True))
    assert [await reads(world, who, private) for who in (ADA, BOB, ROOT, SHADE)] == [True, False, True, False]
    for who in (ADA, BOB):
        told = (await world.ask(Stats, MemoryStats(), principal=who)).private
        assert told == {"visibility": None, "consent": False, "admins_read": True}
    hits = await world.ask(MemoryList, SearchMemories(query="heron"), principal=ROOT)
    assert hits.memories == [], "a search is of one's own"
