"""How a namespace keeps what is private: its default, and whether administrators read it (PV-3, PV-5)."""

from typing import Any
from uuid import UUID

import pytest
from msgspec import UNSET

from engramq.deploy.local.hooks.capture import TAG
from engramq.schemas.commands import (
    ForgetMemory,
    Forgotten,
    GetMemory,
    ImportMemories,
    ListRecentMemories,
    MemoriesImported,
    MemoryFound,
    MemoryList,
    MemoryStats,
    SearchMemories,
    Stats,
)
from engramq.schemas.commands.bulk import ImportRow
from engramq.schemas.envelope import Principal
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import ALL_SCOPES, DEFAULT_NAMESPACE, Partition, Scope, Visibility
from engramq.workers.auth import tokens
from engramq.workers.auth.tokens import NewToken
from engramq.workers.db.privacy import change_privacy, privacy_of, seeing_as_admin
from engramq.workers.db.transaction import Transaction
from tests.workers.conftest import World

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


@pytest.mark.promise("PV-3")
async def test_a_search_marks_what_is_shared_beside_what_is_private(world: World) -> None:
    for number, word in enumerate((Visibility.PRIVATE, Visibility.SHARED)):
        await world.keep(f"The heron nests by pond {number}", principal=ADA, visibility=word)
    for command in (SearchMemories(query="heron pond"), ListRecentMemories()):
        found = (await world.ask(MemoryList, command, principal=ADA)).memories
        assert {memory.visibility for memory in found} == {Visibility.PRIVATE, Visibility.SHARED}
        assert [memory.visibility for memory in (await world.ask(MemoryList, command, principal=BOB)).memories] == [
            UNSET
        ]


@pytest.mark.promise("PV-5")
async def test_a_namespace_that_nobody_has_written_to_lets_no_administrator_read(world: World) -> None:
    unset = {"visibility": None, "consent": False, "admins_read": False}
    assert (await world.store.read("empty", privacy_of)).as_reply == unset


@pytest.mark.promise("PV-5")
@pytest.mark.parametrize("who", [ADA, ROOT, SHADE], ids=lambda who: f"{who.name}-{who.untrusted}")
async def test_a_block_of_an_administrator_knows_whether_it_sees_everything(world: World, who: Principal) -> None:
    await world.keep("The heron nests by the pond", principal=ADA)

    async def sees_all(tx: Transaction) -> bool:
        async with seeing_as_admin(tx, who) as seen:
            return seen

    assert not await world.store.read(DEFAULT_NAMESPACE, sees_all)
    await world.store.write(DEFAULT_NAMESPACE, lambda tx: change_privacy(tx, admins_read=True))
    assert await world.store.read(DEFAULT_NAMESPACE, sees_all) is (who is ROOT)


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


async def stored_by(world: World, who: Principal, **fields: Any) -> bool:
    """Store a memory that does not say who sees it, and say whether it is private."""
    by_itself = (await world.keep("The heron nests by the pond", principal=who, **fields)).stored
    row = ImportRow(content=f"The pond of {who.name} is deep, says {by_itself.id}")
    imported = await world.ask(MemoriesImported, ImportMemories(records=(row,)), principal=who)
    assert imported.receipts
    ids = [UUID(by_itself.id), UUID(str(imported.receipts[0].memory_id))]
    owners = {row["owner"] for row in world.rows("select owner from memories where node_id = any(%s)", ids)}
    assert len(owners) == 1
    assert (by_itself.visibility is Visibility.PRIVATE) is (owners != {None})
    return owners != {None}


@pytest.mark.promise("PV-3")
async def test_what_does_not_say_who_sees_it_is_as_its_token_has_it_else_as_the_namespace(world: World) -> None:
    by_token = {word: Principal(name="ada", scopes=ALL_SCOPES, visibility=word) for word in Visibility}
    assert [await stored_by(world, who) for who in (ADA, *by_token.values())] == [False, True, False]
    await world.store.write(DEFAULT_NAMESPACE, lambda tx: change_privacy(tx, visibility="private"))
    assert [await stored_by(world, who) for who in (ADA, *by_token.values())] == [True, True, False]
    said = (await world.keep("The reed", principal=ADA, visibility=Visibility.SHARED)).stored
    assert await reads(world, BOB, said.id), "what it says comes first"


@pytest.mark.promise("PV-3")
async def test_past_sessions_are_imported_as_private_as_hooks_capture_them(world: World) -> None:
    async def owners(*tags: str) -> set[str | None]:
        row = ImportRow(content=f"My boss must not know {uuid7()}", tags=tags)
        done = await world.ask(MemoriesImported, ImportMemories(records=(row,)), principal=ADA)
        assert done.stored == 1
        (made,) = world.rows("select node_id, owner from memories where content = %s", row.content)
        # Else what comes after may correct it, and is private too.
        await world.ask(Forgotten, ForgetMemory(memory_id=str(made["node_id"])), principal=ADA)
        return {made["owner"]}

    assert await owners(TAG, "codex") == {None}, "alone nothing is private by itself"
    for name in ("ada", "bob"):
        await tokens.create(world.store, DEFAULT_NAMESPACE, NewToken(principal=name, scopes=ALL_SCOPES), "root")
    assert await owners(TAG, "codex") == {"ada"}
    assert await owners("codex") == {None}, "only what is captured"
    await world.store.write(DEFAULT_NAMESPACE, lambda tx: change_privacy(tx, visibility="shared"))
    assert await owners(TAG, "codex") == {None}


@pytest.mark.promise("PV-3")
async def test_captures_are_private_to_the_person_where_others_come_in_by_tokens(world: World) -> None:
    hook = Principal(name="hooks/codex", scopes=(Scope.READ, Scope.WRITE), untrusted=True, acts_for="ada")
    assert not await stored_by(world, hook), "alone nothing is private by itself"
    for name in ("ada", "bob"):
        wanted = NewToken(principal=name, scopes=ALL_SCOPES)
        _, token = await tokens.create(world.store, DEFAULT_NAMESPACE, wanted, "root")
    assert await stored_by(world, hook)
    assert not await stored_by(world, ADA), "only what is captured"
    listed = ListRecentMemories(partitions=tuple(Partition), created_by="hooks/codex")
    seen = {who.name: len((await world.ask(MemoryList, listed, principal=who)).memories) for who in (ADA, BOB, hook)}
    assert seen == {"ada": 4, "bob": 2, "hooks/codex": 4}
    await tokens.revoke(world.store, token.id, "root")
    for memory in (await world.ask(MemoryList, listed, principal=ADA)).memories:  # later ones may correct them
        await world.ask(Forgotten, ForgetMemory(memory_id=memory.id), principal=ADA)
    later = ImportRow(content="Numbers are due on Friday")
    await world.ask(MemoriesImported, ImportMemories(records=(later,)), principal=hook)
    (kept,) = world.rows("select owner from memories where content = %s", later.content)
    assert kept["owner"] is None
    await world.store.write(DEFAULT_NAMESPACE, lambda tx: change_privacy(tx, visibility="private"))
    assert await stored_by(world, hook)
