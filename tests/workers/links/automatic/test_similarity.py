"""Links that the pipeline makes of new memories: with whom, of what weight, and never beyond the cap."""

import asyncio

import pytest

from engramq.schemas import limits
from engramq.schemas.vocabulary import SYSTEM_PRINCIPAL
from tests.conftest import Database
from tests.scenarios.stage import agent_of, stage_settings, staged, until
from tests.workers.links.automatic.harness import Harness

WORDS = ["the", "harbour", "crane", "lifts", "steel", "boxes", "onto", "ships", "every", "morning", "before"]


def text(*others: str) -> str:
    """Return a text that shares most of its words with the others that this makes."""
    return " ".join([*WORDS, *others])


@pytest.mark.promise("CN-36", "OV-3")
async def test_a_new_memory_is_linked_to_those_of_its_partition_that_are_near_enough(harness: Harness) -> None:
    agent = harness.agent
    near = await agent.store(text("dawn"))
    far = await agent.store("bread rises in a warm kitchen")
    apart = await agent.store(text("noon"), partition="untrusted")
    body = await agent.call("store_memory", content=text("dusk"))
    shown = {memory["id"]: memory["similarity"] for memory in body["similar_memories"]}
    await harness.linked(4)
    links = harness.links()
    assert list(links) == [frozenset((near["id"], body["stored"]["id"]))]
    (link,) = links.values()
    assert (link["relation"], link["origin"], link["reinforcement_count"]) == ("similar", "similarity", 0)
    assert (link["created_by"], link["updated_by"]) == (SYSTEM_PRINCIPAL, SYSTEM_PRINCIPAL)
    assert link["weight"] == pytest.approx(shown[near["id"]], abs=1e-6)
    assert link["weight"] >= 0.6
    assert str(link["declared_from"]) == body["stored"]["id"]
    assert {far["id"], apart["id"]}.isdisjoint(harness.degrees())
    found = await agent.call("get_memory", memory_id=near["id"])
    assert [item["memory_id"] for item in found["links"]] == [body["stored"]["id"]]


@pytest.mark.promise("CN-36")
@pytest.mark.long
async def test_a_new_memory_gets_links_to_the_ten_nearest_at_most(database: Database, redis_url: str) -> None:
    settings = stage_settings(database, redis_url, f"{database.name}-ten", degree_cap="50")
    async with staged(settings) as stage, agent_of(await stage.gateway()) as agent:
        harness = Harness(agent, database)
        for number in range(14):
            await agent.store(text(f"w{number}"), idempotency_key=str(number))
        await harness.linked(14)
        last = await agent.store(text("w1"))
        await harness.linked(15)
        assert harness.degrees()[last["id"]] == limits.SIMILARITY_LINKS
        (heaviest, *_) = sorted(harness.links().items(), key=lambda link: -link[1]["weight"])
        assert last["id"] in heaviest[0]
        assert heaviest[1]["weight"] == pytest.approx(1.0, abs=1e-3)


async def test_twins_that_are_stored_in_the_same_moment_find_each_other(harness: Harness) -> None:
    kept = await asyncio.gather(*(harness.agent.store(text()) for _ in range(6)))
    await harness.linked(6)
    assert set(harness.degrees()) == {item["id"] for item in kept}
    assert len(harness.links()) == 15


@pytest.mark.promise("CN-26")
@pytest.mark.long
async def test_sixty_four_twins_stored_at_once_never_exceed_the_cap(database: Database, redis_url: str) -> None:
    settings = stage_settings(database, redis_url, f"{database.name}-cap", degree_cap="4")
    async with staged(settings) as stage, agent_of(await stage.gateway()) as agent:
        harness = Harness(agent, database)
        await asyncio.gather(*(agent.store(text(f"w{number % 9}")) for number in range(64)))
        await harness.linked(64)
        degrees = harness.degrees()
        assert max(degrees.values()) <= 4
        assert len(degrees) >= 32


@pytest.mark.long
async def test_what_was_pending_is_linked_once_it_is_active(harness: Harness) -> None:
    one, other = await harness.agent.store(text("dawn")), await harness.agent.store(text("dusk"))
    await harness.linked(2)
    harness.rows("delete from edges")
    harness.rows(
        "update memories set state = 'pending', embedding = null, model_id = null, links_made_at = null, "
        "created_at = now() + interval '50 seconds'"  # the sweep takes up none before they are aged
    )
    body = await harness.agent.call("connect", source=one["id"], target=other["id"], relation="supports")
    assert body["action"] == "deferred"
    third = await harness.agent.store(text("noon"))
    await harness.linked(1)
    assert harness.links() == {}
    harness.age()
    await harness.linked(3)
    links = harness.links()
    assert len(links) == 3
    assert links[frozenset((one["id"], other["id"]))]["relation"] == "supports", "what the agent asked for came first"
    assert harness.degrees()[third["id"]] == 2


async def test_deferred_links_that_wait_for_nothing_are_settled_by_the_sweep(harness: Harness) -> None:
    one, other = await harness.agent.store(text("dawn")), await harness.agent.store("bread rises in a warm kitchen")
    await harness.linked(2)
    harness.rows("update memories set state = 'pending' where node_id = %s", other["id"])
    body = await harness.agent.call("connect", source=one["id"], target=other["id"])
    assert body["action"] == "deferred"
    harness.rows("update memories set state = 'active' where node_id = %s", other["id"])
    await until(lambda: harness.sees("select 1 from edges"))
    report = await harness.agent.call("get_command", command_id=body["command_id"])
    assert report["reply"]["resolved"]["state"] == "made"


@pytest.mark.long
async def test_what_a_crash_took_away_or_an_import_left_is_made_by_the_sweep(harness: Harness) -> None:
    one, other = await harness.agent.store(text("dawn")), await harness.agent.store(text("dusk"))
    await harness.linked(2)
    harness.rows("delete from edges")
    harness.rows("update memories set links_made_at = null")
    harness.age()
    await harness.linked(2)
    assert list(harness.links()) == [frozenset((one["id"], other["id"]))]


async def test_a_memory_that_is_active_no_more_is_left_alone(harness: Harness) -> None:
    await harness.agent.store(text("dawn"))
    gone = await harness.agent.store(text("dusk"))
    await harness.agent.call("forget_memory", memory_id=gone["id"])
    harness.rows("delete from edges")
    harness.rows("update memories set links_made_at = null")
    harness.age()
    await harness.linked(1)
    assert harness.links() == {}
    assert harness.rows("select 1 from memories where state = 'archived' and links_made_at is null") != []
