"""What rests on a memory that goes is named, and a purge takes it along where that is asked for."""

from typing import Any

import pytest

from engramq.schemas.commands import Purged, PurgeMemories
from engramq.schemas.vocabulary import Partition
from tests.scenarios.conftest import agent, settings, stage
from tests.scenarios.stage import Agent
from tests.workers.conftest import World

__all__ = ["agent", "settings", "stage"]

pytestmark = pytest.mark.promise("EV-3")


async def kept(agent: Agent, content: str, *grounds: str, **more: Any) -> str:
    evidence = [{"memory_id": memory_id} for memory_id in grounds]
    return str((await agent.store(content, **({"evidence": evidence} if evidence else {}), **more))["id"])


@pytest.mark.parametrize("how", ["archive", "erase", "reject", "supersede"])
async def test_what_rests_on_it_is_named(agent: Agent, how: str) -> None:
    ground = await kept(agent, "The oven was bought in 2019")
    first = await kept(agent, "Its guarantee ended in 2021", ground)
    second = await kept(agent, "Repairs are paid by us", first, ground)
    await kept(agent, "So we save for repairs", second)
    match how:
        case "reject":
            reply = await agent.call("verify_memory", memory_id=ground, verification="rejected")
        case "supersede":
            newer = await kept(agent, "The oven was bought in 2020")
            reply = await agent.call("supersede_memory", old_memory_id=ground, new_memory_id=newer)
        case _:
            reply = await agent.call("forget_memory", memory_id=ground, erase=how == "erase")
    assert reply["still_resting_count"] == 2
    assert [(each["id"], each["preview"]) for each in reply["still_resting_on"]] == [
        (second, "Repairs are paid by us"),
        (first, "Its guarantee ended in 2021"),
    ]
    shown = (await agent.call("get_memory", memory_id=first, detail="full"))["memory"]["evidence"]
    assert [cited["state"] for cited in shown] == ["changed" if how == "supersede" else "gone"]


async def test_of_many_the_newest_are_named_and_all_are_counted(agent: Agent, world: World) -> None:
    ground = await kept(agent, "The oven was bought in 2019")
    rows = [{"content": f"Conclusion {number}", "evidence": [{"memory_id": ground}]} for number in range(100)]
    await agent.call("import_memories", records=rows)
    reply = await agent.call("forget_memory", memory_id=ground)
    assert (len(reply["still_resting_on"]), reply["still_resting_count"]) == (24, 100)


@pytest.mark.parametrize("along", [False, True])
@pytest.mark.parametrize("archive", [False, True])
async def test_a_purge_names_what_rests_on_what_it_takes_or_takes_it_along(
    agent: Agent, world: World, along: bool, archive: bool
) -> None:
    poisoned = await kept(agent, "The oven is haunted", thread="poison")
    derived = await kept(agent, "Nobody should bake at night", poisoned)
    further = await kept(agent, "The night shift is over", derived)
    sound = await kept(agent, "Bread takes 40 minutes")
    listed = await world.ask(Purged, PurgeMemories(thread="poison"))
    assert (listed.matched, listed.still_resting_count) == (1, 2)
    assert [each.id for each in listed.still_resting_on or ()] == [further, derived]
    how: dict[str, Any] = {"archive": True} if archive else {"erase": True}
    done = await world.ask(Purged, PurgeMemories(thread="poison", with_resting=along, **how))
    assert done.matched == (3 if along else 1)
    assert [each.id for each in done.still_resting_on or ()] == ([] if along else [derived])
    left = {memory["id"] for memory in (await agent.call("list_recent_memories", limit=10))["memories"]}
    assert left == ({sound} if along else {sound, derived, further})


async def test_a_purge_by_name_says_how_many_of_each_trust_it_means(agent: Agent, world: World) -> None:
    await kept(agent, "The oven is haunted", source_type="research")
    await kept(agent, "Bread takes 40 minutes")
    await kept(agent, "Rolls take 20 minutes")
    listed = await world.ask(Purged, PurgeMemories(created_by="I/O"))
    assert (listed.trusted_count, listed.untrusted_count) == (2, 1)
    of_one = await world.ask(Purged, PurgeMemories(created_by="I/O", partition=Partition.UNTRUSTED))
    assert (of_one.trusted_count, of_one.untrusted_count) == (0, 1)
    done = await world.ask(Purged, PurgeMemories(created_by="I/O", erase=True))
    assert (done.trusted_count, done.untrusted_count) == (2, 1)
