"""What a purged principal changed of what others wrote: named, and set back when that is asked for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engramq.schemas.commands import (
    AddEdge,
    AddNode,
    ChangeNeedsConsent,
    EdgeAdded,
    MemoryChanged,
    NodeAdded,
    Purged,
    PurgeMemories,
    Reclassified,
    ReclassifySector,
    UpdateMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.vocabulary import ALL_SCOPES
from engramq.workers.graph import taking_back
from engramq.workers.memories import purge as purging
from engramq.workers.queue.contract import LeaseLost
from tests.assignments import OWNER, assignment, losing_lease, repeated
from tests.workers.conftest import World

CRAWLER = Principal(name="crawler", scopes=ALL_SCOPES)
BOTH = (2019, 1, 1), (2020, 1, 1)
START, END = (datetime(*day, tzinfo=UTC) for day in BOTH)
FLAG = {"is_constitutive": True}


async def fact(world: World, target: str, by: Principal = OWNER, **more: Any) -> EdgeAdded:
    command = AddEdge(source_name="Ada", target_name=target, relation="KNOWS", **more)
    return await world.ask(EdgeAdded, command, principal=by)


async def node(world: World, name: str, by: Principal = OWNER, **properties: Any) -> NodeAdded:
    return await world.ask(NodeAdded, AddNode(name=name, properties=properties), principal=by)


async def purge(world: World, **given: Any) -> Purged:
    return await world.ask(Purged, PurgeMemories(created_by="crawler", **given))


def edge(world: World, target: str) -> dict[str, Any]:
    (row,) = world.rows(
        "select e.weight, e.properties, e.memory_sector, e.valid_from, e.valid_until from edges e "
        "join nodes t on t.id = e.target_id where t.name = %s",
        target,
    )
    return row


def counts(reply: Purged) -> tuple[int, int, int, int]:
    return reply.changed_edge_count, reply.changed_node_count, reply.changed_memory_count, reply.taken_back_count


async def test_what_was_changed_of_others_is_named_and_stays_unless_it_is_asked_for(world: World) -> None:
    await fact(world, "Bob")
    changed = await fact(world, "Bob", CRAWLER, properties={"p": "swordfish"})
    await fact(world, "Bob", CRAWLER, weight=0.1)
    sector = await fact(world, "Cay")
    command = ReclassifySector(source_name="Ada", target_name="Cay", relation="KNOWS", new_sector="emotional")
    await world.ask(Reclassified, command, principal=CRAWLER)
    await fact(world, "Eve", CRAWLER)
    await fact(world, "Eve", CRAWLER, weight=0.2)  # its own: goes
    held = await node(world, "Held")
    await node(world, "Held", CRAWLER, p="swordfish")
    memory = (await world.keep("ours")).stored.id
    await world.ask(MemoryChanged, UpdateMemory(memory_id=memory, confidence=0.1), principal=CRAWLER)
    before = edge(world, "Bob")

    listed = await purge(world)
    assert counts(listed) == (2, 1, 1, 0)
    assert [(preview.id, preview.preview) for preview in listed.changed_edge_previews or ()] == [
        (changed.edge_id, "Ada --KNOWS--> Bob"),
        (sector.edge_id, "Ada --KNOWS--> Cay"),
    ]
    assert [(preview.id, preview.preview) for preview in listed.changed_node_previews or ()] == [
        (held.node_id, "Entity: Held")
    ]
    assert [(preview.id, preview.preview) for preview in listed.changed_memory_previews or ()] == [(memory, "ours")]
    past = datetime.now(UTC) - timedelta(days=1)
    assert counts(await purge(world, until=past)) == (0, 0, 0, 0)
    assert counts(await purge(world, since=past)) == (2, 1, 1, 0)

    done = await purge(world, erase=True)
    assert counts(done) == (2, 1, 1, 0)
    assert edge(world, "Bob") == before
    assert world.rows("select properties from nodes where name = 'Held'") == [{"properties": {"p": "swordfish"}}]


async def test_what_still_is_as_the_principal_wrote_it_is_set_back(world: World) -> None:
    await fact(world, "Bob", weight=0.8, properties={"year": 1843, "own": "ours"}, valid_from=START)
    before = edge(world, "Bob")
    first = assignment(
        AddEdge(
            source_name="Ada",
            target_name="Bob",
            relation="KNOWS",
            weight=0.1,
            properties={"year": 0, "p": "swordfish", **FLAG},
            valid_until=END,
        ),
        principal=CRAWLER,
    )
    await world.complete(first)
    world.rows("update edges set properties = properties - 'is_constitutive'")  # else a second change takes consent
    await fact(world, "Bob", CRAWLER, weight=0.2, properties={"year": -1})
    await node(world, "Bob", year=1815)
    await node(world, "Bob", CRAWLER, p="swordfish", year=0)

    command = assignment(PurgeMemories(created_by="crawler", erase=True, restore_replaced=True, reason="poisoned"))
    done = (await world.complete(command)).reply
    assert isinstance(done, Purged)
    assert counts(done) == (0, 0, 0, 2)
    assert edge(world, "Bob") == before
    assert world.rows("select properties, updated_by from nodes where name = 'Bob'") == [
        {"properties": {"year": 1815}, "updated_by": OWNER.name}
    ]
    entries = world.rows("select * from audit_log where action = 'take_back' order by id")
    assert [(len(entry["new"]["entries"]), entry["old"], entry["reason"]) for entry in entries] == [
        (2, {}, "poisoned"),
        (1, {}, "poisoned"),
    ]
    again = (await world.complete(repeated(first, attempt=2))).reply
    assert isinstance(again, EdgeAdded)
    assert again.properties == {}
    assert (await world.complete(repeated(command, attempt=2))).reply == done
    assert counts(await purge(world)) == (0, 0, 0, 0)


async def test_what_others_changed_since_or_agreed_to_stays(world: World) -> None:
    await fact(world, "Bob", weight=0.8, properties={"a": 1, "b": 1})
    await fact(world, "Bob", CRAWLER, weight=0.1, properties={"a": 2, "b": 2})
    await fact(world, "Bob", weight=0.5, properties={"b": 3})
    await fact(world, "Bob", CRAWLER, properties={"b": 4})
    await fact(world, "Cay", properties=FLAG)
    change = AddEdge(source_name="Ada", target_name="Cay", relation="KNOWS", weight=0.3)
    await world.ask(ChangeNeedsConsent, change, principal=CRAWLER)
    await world.ask(ChangeNeedsConsent, change)
    await world.ask(EdgeAdded, change, principal=CRAWLER)
    await fact(world, "Dan", valid_from=START)
    await fact(world, "Dan", CRAWLER, valid_from=START - timedelta(days=900))
    await fact(world, "Dan", valid_until=START - timedelta(days=1))  # with the old beginning it would be backwards

    done = await purge(world, erase=True, restore_replaced=True)
    assert counts(done) == (1, 0, 0, 2)
    assert [preview.preview for preview in done.changed_edge_previews or ()] == ["Ada --KNOWS--> Cay"]
    bob, cay, dan = (edge(world, name) for name in ("Bob", "Cay", "Dan"))
    assert (bob["weight"], bob["properties"]) == (0.5, {"a": 1, "b": 3})
    assert cay["weight"] == pytest.approx(0.3)
    assert (dan["valid_from"], dan["valid_until"]) == (START - timedelta(days=900), START - timedelta(days=1))


async def test_taking_back_that_was_broken_off_is_finished(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "ERASED_AT_ONCE", 2)
    for number in range(5):
        await fact(world, f"T{number}", weight=0.8)
    for number in range(5):
        await fact(world, f"T{number}", CRAWLER, weight=0.1)
    command = assignment(PurgeMemories(created_by="crawler", erase=True, restore_replaced=True))
    monkeypatch.setattr(taking_back, "take_back", losing_lease(command)(taking_back.take_back))
    with pytest.raises(LeaseLost):
        await world.complete(command)
    assert [row["n"] for row in world.rows("select count(*) as n from edges where weight > 0.5")] == [2]
    reply = (await world.complete(repeated(command, attempt=2))).reply
    assert isinstance(reply, Purged)
    assert counts(reply) == (0, 0, 0, 5)
    assert [row["n"] for row in world.rows("select count(*) as n from edges where weight > 0.5")] == [5]
