"""A memory that comes back brings its links along: they count again, and somebody may have to make room."""

import pytest

from tests.links.conftest import CAP
from tests.links.desk import Desk

pytestmark = pytest.mark.anyio


@pytest.mark.promise("CN-26", "MT-19")
async def test_a_restored_memory_gives_up_its_own_automatic_links_first(desk: Desk) -> None:
    back, hub, *others = await desk.memories(2 + CAP)
    await desk.seed(back, hub, weight=0.95)
    await desk.agent.call("forget_memory", memory_id=back)
    for other in others:
        await desk.seed(hub, other, weight=0.2)
    body = await desk.agent.call("restore_memory", memory_id=back, reason="wrongly archived")
    assert body["status"] == "restored"
    assert (await desk.links(back), (await desk.degrees())[hub]) == ([], CAP)
    (row,) = await desk.audited("restore")
    assert [gone["other_id"] for gone in row["new"]["displaced"]] == [back]
    assert row["old"] == {"state": "archived"}


@pytest.mark.promise("CN-20", "CN-26")
async def test_what_an_agent_asserted_of_it_stays_and_the_weakest_of_the_others_go(desk: Desk) -> None:
    back, hub, *others = await desk.memories(2 + CAP)
    await desk.connect(back, hub)
    await desk.agent.call("forget_memory", memory_id=back)
    for number, other in enumerate(others):
        await desk.seed(hub, other, weight=0.2 + number / 10)
    await desk.agent.call("restore_memory", memory_id=back)
    assert await desk.link(hub, others[0]) is None
    assert await desk.link(hub, back) is not None
    assert (await desk.degrees())[hub] == CAP


@pytest.mark.promise("CN-16", "CN-21", "CN-26")
async def test_it_stays_away_when_only_protected_links_are_left(desk: Desk) -> None:
    back, hub, new, *others = await desk.memories(3 + CAP)
    await desk.connect(back, hub)
    await desk.agent.call("supersede_memory", old_memory_id=back, new_memory_id=new)
    await desk.fill(hub, others)
    refused = await desk.refused("restore_memory", memory_id=back)
    assert (refused["code"], refused["memory_id"]) == ("degree_limit", hub)
    assert (await desk.agent.call("get_memory", memory_id=back))["memory"]["superseded_by"] == new
    await desk.agent.call("disconnect", source=hub, target=others[0])
    assert (await desk.agent.call("restore_memory", memory_id=back))["memory"]["superseded_by"] is None
    assert (await desk.degrees())[hub] == CAP


@pytest.mark.promise("CN-26")
async def test_the_link_that_a_supersession_took_the_place_of_counts_again(desk: Desk) -> None:
    old, new, *others = await desk.memories(2 + CAP)
    await desk.seed(old, new, weight=0.9)
    await desk.agent.call("supersede_memory", old_memory_id=old, new_memory_id=new)
    for other in others:
        await desk.seed(new, other, weight=0.3)
    await desk.agent.call("restore_memory", memory_id=old)
    assert (await desk.link(old, new), (await desk.degrees())[new]) == (None, CAP)


@pytest.mark.promise("CN-22", "CN-26")
async def test_who_was_above_a_lowered_cap_gets_no_more_and_loses_no_more(desk: Desk) -> None:
    back, hub, *others = await desk.memories(2 + CAP + 2)
    await desk.seed(back, hub, weight=0.9)
    await desk.agent.call("forget_memory", memory_id=back)
    await desk.fill(hub, others)
    assert (await desk.agent.call("restore_memory", memory_id=back))["status"] == "restored"
    assert (await desk.links(back), (await desk.degrees())[hub]) == ([], CAP + 2)
