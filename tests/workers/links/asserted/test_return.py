"""A memory that comes back brings its links along: they count again, and somebody may have to make room."""

import pytest

from tests.workers.links.asserted.conftest import CAP
from tests.workers.links.asserted.harness import Harness


@pytest.mark.promise("CN-26", "MT-19")
async def test_a_restored_memory_gives_up_its_own_automatic_links_first(harness: Harness) -> None:
    back, hub, *others = await harness.memories(2 + CAP)
    await harness.seed(back, hub, weight=0.95)
    await harness.agent.call("forget_memory", memory_id=back)
    for other in others:
        await harness.seed(hub, other, weight=0.2)
    body = await harness.agent.call("restore_memory", memory_id=back, reason="wrongly archived")
    assert body["status"] == "restored"
    assert (await harness.links(back), (await harness.degrees())[hub]) == ([], CAP)
    (row,) = await harness.audited("restore")
    assert [gone["other_id"] for gone in row["new"]["displaced"]] == [back]
    assert row["old"] == {"state": "archived"}


@pytest.mark.promise("CN-20", "CN-26")
async def test_what_an_agent_asserted_of_it_stays_and_the_weakest_of_the_others_go(harness: Harness) -> None:
    back, hub, *others = await harness.memories(2 + CAP)
    await harness.connect(back, hub)
    await harness.agent.call("forget_memory", memory_id=back)
    for number, other in enumerate(others):
        await harness.seed(hub, other, weight=0.2 + number / 10)
    await harness.agent.call("restore_memory", memory_id=back)
    assert await harness.link(hub, others[0]) is None
    assert await harness.link(hub, back) is not None
    assert (await harness.degrees())[hub] == CAP


@pytest.mark.promise("CN-16", "CN-21", "CN-26")
async def test_it_stays_away_when_only_protected_links_are_left(harness: Harness) -> None:
    back, hub, new, *others = await harness.memories(3 + CAP)
    await harness.connect(back, hub)
    await harness.agent.call("supersede_memory", old_memory_id=back, new_memory_id=new)
    await harness.fill(hub, others)
    refused = await harness.refused("restore_memory", memory_id=back)
    assert (refused["code"], refused["memory_id"]) == ("degree_limit", hub)
    assert (await harness.agent.call("get_memory", memory_id=back))["memory"]["superseded_by"] == new
    await harness.agent.call("disconnect", source=hub, target=others[0])
    assert (await harness.agent.call("restore_memory", memory_id=back))["memory"]["superseded_by"] is None
    assert (await harness.degrees())[hub] == CAP


@pytest.mark.promise("CN-26")
async def test_the_link_that_a_supersession_took_the_place_of_counts_again(harness: Harness) -> None:
    old, new, *others = await harness.memories(2 + CAP)
    await harness.seed(old, new, weight=0.9)
    await harness.agent.call("supersede_memory", old_memory_id=old, new_memory_id=new)
    for other in others:
        await harness.seed(new, other, weight=0.3)
    await harness.agent.call("restore_memory", memory_id=old)
    assert (await harness.link(old, new), (await harness.degrees())[new]) == (None, CAP)


@pytest.mark.promise("CN-22", "CN-26")
async def test_who_was_above_a_lowered_cap_gets_no_more_and_loses_no_more(harness: Harness) -> None:
    back, hub, *others = await harness.memories(2 + CAP + 2)
    await harness.seed(back, hub, weight=0.9)
    await harness.agent.call("forget_memory", memory_id=back)
    await harness.fill(hub, others)
    assert (await harness.agent.call("restore_memory", memory_id=back))["status"] == "restored"
    assert (await harness.links(back), (await harness.degrees())[hub]) == ([], CAP + 2)
