"""Archiving all of a principal, a source type, a thread or a time, instead of erasing it."""

import pytest

from engramq.schemas.commands import (
    ForgetMemory,
    Forgotten,
    MemoryChanged,
    Purged,
    PurgeMemories,
    RestoreMemory,
    Superseded,
    SupersedeMemory,
)
from engramq.schemas.faults import FaultCode
from engramq.workers.memories import purge as purging
from tests.jobs import job, repeated
from tests.refusals import refused
from tests.workers.conftest import World

pytestmark = pytest.mark.anyio


async def keep(world: World, content: str, thread: str = "bad") -> str:
    return (await world.keep(content, thread=thread)).stored.id


async def replaced(world: World, old: str, new: str) -> None:
    await world.ask(Superseded, SupersedeMemory(old_memory_id=old, new_memory_id=new))


def states(world: World) -> dict[str, str]:
    return {row["content"]: row["state"] for row in world.rows("select content, state from memories")}


async def test_what_is_archived_is_listed_once_audited_and_restorable(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "ERASED_AT_ONCE", 2)
    ids = [await keep(world, f"bad {number}") for number in range(5)]
    await keep(world, "good", thread="good")
    await world.ask(Forgotten, ForgetMemory(memory_id=ids[0]))
    listed = await world.ask(Purged, PurgeMemories(thread="bad", unarchived=True))
    assert (listed.matched, listed.memory_ids) == (4, ids[1:])
    command = job(PurgeMemories(thread="bad", archive=True, reason="odd"))
    done = (await world.outcome(command)).reply
    assert isinstance(done, Purged)
    assert (done.matched, done.archived, done.erased, done.memory_ids) == (4, 4, 0, ids[1:])
    assert states(world) == {**{f"bad {number}": "archived" for number in range(5)}, "good": "active"}
    rows = world.rows("select * from audit_log where command_id = %s order by id", command.envelope.id)
    assert [(row["action"], row["reason"]) for row in rows] == [("archive", "odd")] * 4 + [("purge", "odd")]
    assert (rows[0]["old"], rows[0]["new"]) == ({"state": "active"}, {"state": "archived"})
    assert (rows[-1]["new"]["archived"], "erased" in rows[-1]["new"]) == (4, False)
    assert (await world.outcome(repeated(command, attempt=2))).reply == done
    assert (await world.ask(Purged, PurgeMemories(thread="bad", archive=True))).archived == 0
    assert (await world.ask(MemoryChanged, RestoreMemory(memory_id=ids[3]))).status == "restored"
    assert states(world)["bad 3"] == "active"


@pytest.mark.parametrize("restore", [False, True])
async def test_what_the_archived_had_replaced_is_named_or_brought_back(world: World, *, restore: bool) -> None:
    first, middle = await keep(world, "true", thread="good"), await keep(world, "false")
    last = await keep(world, "still false")
    await replaced(world, first, middle)
    await replaced(world, middle, last)
    done = await world.ask(Purged, PurgeMemories(thread="bad", archive=True, restore_replaced=restore))
    assert done.archived == 2
    hidden = world.rows("select superseded_by, superseded_at from memories where content = 'true'")[0]
    if restore:
        assert (done.restored, done.still_hidden_count) == ([first], 0)
        assert hidden == {"superseded_by": None, "superseded_at": None}
    else:
        assert [(one.id, one.preview) for one in done.still_hidden or ()] == [(first, "true")]
        assert str(hidden["superseded_by"]) == middle


async def test_to_erase_and_to_archive_exclude_each_other(world: World) -> None:
    await keep(world, "stays")
    for command in (
        PurgeMemories(thread="bad", erase=True, archive=True),
        PurgeMemories(thread="bad", erase=True, unarchived=True),
    ):
        with refused(FaultCode.INVALID_PARAMETER):
            await world.outcome(job(command))
    with refused(FaultCode.INVALID_PARAMETER):
        await world.outcome(job(PurgeMemories(archive=True)))
    assert states(world) == {"stays": "active"}
