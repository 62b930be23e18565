"""No memory ever has more links than the cap: what goes first, what never goes, and what is refused."""

import asyncio
import random
from uuid import UUID

import pytest

from engramq.schemas.vocabulary import Origin
from engramq.workers.db.database import Store
from engramq.workers.links.writer import AutomaticLink, write_automatic
from tests.conftest import Database
from tests.scenarios.stage import Stage, agent_of, stage_settings, staged
from tests.workers.links.asserted.conftest import CAP, RULES
from tests.workers.links.asserted.harness import Harness


@pytest.mark.promise("CN-18", "CN-19")
async def test_the_weakest_similar_link_makes_room_and_is_reported(harness: Harness) -> None:
    hub, heavy, light, rare, *new = await harness.memories(7)
    await harness.seed(hub, heavy, weight=0.9)
    await harness.seed(light, hub, weight=0.4)
    await harness.seed(hub, rare, "co_occurs", weight=0.1, origin="co_retrieval")
    body = await harness.connect(new[0], hub)
    gone = {"memory_id": hub, "other_id": light, "relation": "similar", "weight": 0.4, "origin": "similarity"}
    gone |= {"source_id": light, "target_id": hub}
    assert (body["action"], body["displaced_edge"], body["displaced_edges"]) == ("created", gone, [gone])
    assert await harness.link(hub, light) is None
    # The heavier similar one goes before the lighter co_occurs.
    assert (await harness.connect(hub, new[1]))["displaced_edge"]["other_id"] == heavy
    assert (await harness.connect(hub, new[2]))["displaced_edge"]["other_id"] == rare
    assert await harness.pairs(hub) == {(hub, other) for other in new}
    assert (await harness.audited("connect"))[0]["new"]["displaced"] == [gone]


@pytest.mark.promise("CN-16", "CN-20", "CN-21")
async def test_what_is_protected_never_makes_room(harness: Harness) -> None:
    hub, new, *others = await harness.memories(2 + CAP)
    for relation, origin in [
        ("supports", "agent"),
        ("similar", "agent"),
        ("co_occurs", "agent"),
        ("elaborates", "similarity"),
        ("supports", "similarity"),
        ("contradicts", "similarity"),
        ("outcome", "outcome"),
        ("my own", "import"),
    ]:
        await harness.rows("delete from edges")
        for other in others:
            await harness.seed(hub, other, relation, weight=0.01, origin=origin)
        refused = await harness.refused("connect", source=new, target=hub)
        assert (refused["code"], refused["memory_id"]) == ("degree_limit", hub)
        assert hub in refused["error"]
        assert str(CAP) in refused["error"]
        assert "ENGRAMQ_DEGREE_CAP" in refused["recovery"]


@pytest.mark.promise("CN-23", "CN-24", "CN-16")
async def test_both_ends_make_room_or_neither(harness: Harness) -> None:
    one, other, *more = await harness.memories(2 + 2 * CAP)
    for number, another in enumerate(more):
        await harness.seed(one if number < CAP else other, another, weight=0.3 + number / 10)
    body = await harness.connect(one, other, relation="supports")
    assert [gone["memory_id"] for gone in body["displaced_edges"]] == [one, other]
    assert [gone["other_id"] for gone in body["displaced_edges"]] == [more[0], more[CAP]]
    assert {(await harness.degrees())[one], (await harness.degrees())[other]} == {CAP}
    full, *others = await harness.memories(1 + CAP)
    await harness.fill(full, others)
    for ends in ({"source": one, "target": full}, {"source": full, "target": one}):
        refused = await harness.refused("connect", **ends)
        assert (refused["code"], refused["memory_id"]) == ("degree_limit", full)


@pytest.mark.promise("CN-25")
async def test_a_link_that_is_there_is_changed_whatever_the_cap(harness: Harness) -> None:
    hub, *others = await harness.memories(3 + CAP)
    await harness.fill(hub, others)
    assert (await harness.degrees())[hub] == CAP + 2
    assert (await harness.connect(others[0], hub))["action"] == "reinforced"
    assert (await harness.connect(hub, others[1], relation="mine", if_exists="update"))["action"] == "updated"
    assert (await harness.connect(hub, others[2], if_exists="skip"))["action"] == "skipped"


@pytest.mark.promise("CN-22")
async def test_the_cap_is_a_setting(database: Database, redis_url: str, key_prefix: str) -> None:
    settings = stage_settings(database, redis_url, key_prefix, degree_cap="1", reinforce_delta="0.25")
    async with staged(settings) as stage, agent_of(await stage.gateway()) as agent:
        harness = Harness(agent, database)
        one, other, third = await harness.memories(3)
        await harness.connect(one, other)
        assert (await harness.connect(one, other))["weight"] == 0.9
        refused = await harness.refused("connect", source=third, target=one)
        assert (refused["code"], "1 links" in refused["error"]) == ("degree_limit", True)


@pytest.mark.promise("CN-18", "CN-21")
async def test_links_to_memories_that_are_not_active_and_supersessions_do_not_count(harness: Harness) -> None:
    hub, archived, old, rejected, *others = await harness.memories(4 + CAP)
    await harness.fill(hub, [archived, rejected, *others[1:]])
    await harness.agent.call("supersede_memory", old_memory_id=old, new_memory_id=hub)
    await harness.agent.call("forget_memory", memory_id=archived)
    await harness.rows("update memories set verification = 'rejected' where node_id = %s", rejected)
    assert (await harness.connect(hub, others[0]))["displaced_edges"] == []
    assert len(await harness.links(hub)) == CAP + 3
    assert (await harness.refused("connect", source=hub, target=(await harness.memories(1))[0]))[
        "code"
    ] == "degree_limit"


@pytest.mark.promise("CN-22")
async def test_a_lower_cap_is_kept_by_whatever_is_made_next(harness: Harness) -> None:
    hub, new, *others = await harness.memories(2 + CAP + 2)
    for number, other in enumerate(others):
        await harness.seed(hub, other, weight=0.1 * number)
    body = await harness.connect(hub, new)
    assert [gone["other_id"] for gone in body["displaced_edges"]] == others[:CAP]
    assert (await harness.degrees())[hub] == CAP


@pytest.mark.promise("CN-16", "CN-21")
async def test_where_too_few_may_go_the_refusal_does_not_say_that_none_may(harness: Harness) -> None:
    hub, new, light, *others = await harness.memories(3 + CAP)
    await harness.fill(hub, others)
    await harness.seed(hub, light, weight=0.1)
    refused = await harness.refused("connect", source=hub, target=new)
    assert refused["error"] == f"Memory {hub} is at the cap of {CAP} links, and too few of them may be displaced."


@pytest.mark.promise("CN-26")
async def test_an_automatic_writer_takes_the_place_of_lighter_automatic_links_only(
    harness: Harness, store: Store
) -> None:
    hub, agents, light, heavy, *new = await harness.memories(8)
    await harness.fill(hub, [agents])
    await harness.seed(hub, light, weight=0.65)
    await harness.seed(hub, heavy, "co_occurs", weight=0.70, origin="co_retrieval")
    wanted = [_similar(hub, other, weight) for other, weight in zip(new, (0.64, 0.66, 0.69, 0.90), strict=True)]
    wanted += [_similar(agents, hub, 1.0), _similar(hub, hub, 1.0)]
    written = await store.write("default_user", lambda tx: write_automatic(tx, wanted, rules=RULES))
    # The heaviest first: .90 for .65, then nothing is lighter than .69 but what was just made.
    assert [item.weight for item in written.created] == [0.90]
    assert [item.target for item in written.existing] == [UUID(hub)]
    assert len(written.skipped) == 4
    assert await harness.link(hub, new[3]) is not None
    assert await harness.link(hub, light) is None
    assert (await harness.degrees())[hub] == CAP


@pytest.mark.promise("CN-26", "CN-31", "CN-36")
async def test_an_automatic_writer_leaves_out_what_may_not_be_linked(harness: Harness, store: Store) -> None:
    one, other, archived, pending = await harness.memories(4)
    (untrusted,) = await harness.memories(1, partition="untrusted")
    await harness.agent.call("forget_memory", memory_id=archived)
    await harness.unembed(pending)
    await harness.seed(one, other)
    await harness.agent.call("disconnect", source=one, target=other)
    wanted = [_similar(one, end, 0.9) for end in (other, archived, pending, untrusted)]
    written = await store.write("default_user", lambda tx: write_automatic(tx, wanted, rules=RULES))
    assert (written.created, written.existing, len(written.skipped)) == ([], [], 4)
    assert await store.write("elsewhere", lambda tx: write_automatic(tx, wanted, rules=RULES)) == written
    assert await harness.links() == []


@pytest.mark.promise("CN-27")
async def test_twenty_at_once_on_one_pair_make_one_link_and_every_one_counts(stage: Stage, harness: Harness) -> None:
    one, other = await harness.memories(2)
    async with agent_of(await stage.gateway()) as second:
        agents = [harness.agent, second]
        bodies = await asyncio.gather(
            *(
                agents[number % 2].call("connect", **_ends(one, other, number), relation="supports", weight=0.1)
                for number in range(20)
            )
        )
    assert sorted(body["action"] for body in bodies) == ["created"] + 19 * ["reinforced"]
    assert sorted(body["reinforcement_count"] for body in bodies) == list(range(20))
    (row,) = await harness.links()
    assert (row["reinforcement_count"], row["weight"]) == (19, 1.0)


@pytest.mark.promise("CN-26", "CN-27")
async def test_sixty_four_at_once_around_hubs_end_within_the_cap_without_an_error(
    stage: Stage, harness: Harness, store: Store
) -> None:
    """Agents, batches, disconnections, outcomes, archiving, restoring, and an automatic writer, all at once."""
    ids = await harness.memories(12)
    dice = random.Random(7)

    async def automatic() -> str:
        pairs = [dice.sample(ids, 2) for _ in range(6)]
        wanted = [_similar(pair, other, dice.random()) for pair, other in pairs]
        await store.write("default_user", lambda tx: write_automatic(tx, wanted, rules=RULES))
        return "written"

    async def act(number: int) -> str:
        one, other = dice.sample(ids[:4] if number % 2 else ids, 2)
        match number % 8:
            case 0:
                return await automatic()
            case 1:
                body = await harness.agent.call("disconnect", source=one, target=other)
            case 2:
                body = await harness.agent.call("record_outcome", memory_ids=dice.sample(ids, 4), signal=0.9)
            case 3:
                edges = [{"source": a, "target": b} for a, b in (dice.sample(ids, 2) for _ in range(5))]
                body = await harness.agent.call("connects", edges=edges)
            case 4:
                await harness.agent.call("forget_memory", memory_id=one)
                body = await harness.agent.call("restore_memory", memory_id=one)
            case _:
                body = await harness.agent.call("connect", source=one, target=other)
        return str(body.get("code", body["status"]))

    answers = await asyncio.gather(*(act(number) for number in range(64)))
    assert set(answers) <= {"success", "written", "restored", "degree_limit", "memory_not_active"}
    assert max((await harness.degrees()).values()) <= CAP
    pairs = [(row["source_id"], row["target_id"]) for row in await harness.links()]
    assert len(set(pairs)) == len(pairs)


def _similar(one: str, other: str, weight: float) -> AutomaticLink:
    return AutomaticLink(UUID(one), UUID(other), "similar", weight, Origin.SIMILARITY)


def _ends(one: str, other: str, number: int) -> dict[str, str]:
    return {"source": one, "target": other} if number % 3 else {"source": other, "target": one}
