"""Superseding and what undoes it."""

import asyncio
import itertools

import msgspec
import pytest

from engramq.schemas.commands import ForgetMemory, Forgotten, MemoryChanged, RestoreMemory, Superseded, SupersedeMemory
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import ALL_SCOPES, MemoryState, Partition, Verification
from tests.assignments import assignment
from tests.refusals import refused
from tests.workers.conftest import World

STRANGER = Principal(name="stranger", scopes=ALL_SCOPES, untrusted=True)


async def keep(world: World, content: str, **fields: object) -> str:
    return (await world.keep(content, **fields)).stored.id  # type: ignore[arg-type]


async def replace(world: World, old: str, new: str, **envelope: object) -> Superseded:
    return await world.ask(Superseded, SupersedeMemory(old_memory_id=old, new_memory_id=new), **envelope)


def state(world: World) -> object:
    """Everything that a refusal has to leave as it is."""
    return (
        world.rows("select * from memories order by node_id"),
        world.rows("select * from edges"),
        world.count("audit_log"),
    )


@pytest.mark.promise("MT-6")
async def test_both_rows_the_link_and_the_audit_are_written(world: World) -> None:
    old, new = await keep(world, "The office is in Graz"), await keep(world, "The office is in Linz")
    reply = await replace(world, old, new)
    assert (reply.status, reply.old.superseded_by, reply.new.supersedes) == ("superseded", new, old)
    assert reply.old.updated_at == reply.new.updated_at > reply.old.created_at
    edges = world.rows("select source_id, target_id, relation, weight, origin, layer, declared_from from edges")
    low, high = sorted((old, new))
    assert [{name: str(value) for name, value in edge.items()} for edge in edges] == [
        {
            "source_id": low,
            "target_id": high,
            "relation": "supersedes",
            "weight": "1.0",
            "origin": "agent",
            "layer": "association",
            "declared_from": new,
        }
    ]
    (entry,) = world.rows("select * from audit_log")
    assert (entry["action"], entry["actor"], str(entry["target_id"])) == ("supersede", "I/O", old)
    assert (entry["old"], entry["new"]) == ({"superseded_by": None}, {"superseded_by": new})
    assert str(entry["command_id"]) == reply.command_id


@pytest.mark.promise("MT-6")
async def test_a_standing_link_becomes_the_supersession_and_comes_back_with_a_restoration(world: World) -> None:
    old, new = sorted([await keep(world, "one"), await keep(world, "two")])
    world.rows(
        "insert into edges (id, tenant, layer, source_id, target_id, relation, weight, origin, declared_from, "
        "reinforcement_count) "
        "values (%s, make_tenant('default_user'), 'association', %s, %s, 'supports', 0.3, 'agent', %s, 4)",
        uuid7(),
        old,
        new,
        old,
    )
    await replace(world, old, new)
    kinds = "select relation, weight, origin, declared_from::text, reinforcement_count, properties from edges"
    (edge,) = world.rows(kinds)
    assert (edge["relation"], edge["weight"], edge["declared_from"]) == ("supersedes", 1.0, new)
    await world.ask(MemoryChanged, RestoreMemory(memory_id=old))
    assert world.rows(kinds) == [
        {
            "relation": "supports",
            "weight": 0.3,
            "origin": "agent",
            "declared_from": old,
            "reinforcement_count": 4,
            "properties": {},
        }
    ]


@pytest.mark.promise("MT-8")
async def test_a_chain_leaves_its_last_and_the_exact_repeat_changes_nothing(world: World) -> None:
    a, b, c = [await keep(world, f"version {number} of the plan") for number in range(3)]
    first = await replace(world, a, b)
    await replace(world, b, c)
    visible = world.rows("select node_id::text as id from memories where superseded_by is null")
    assert [row["id"] for row in visible] == [c]
    before = state(world)
    again = await replace(world, a, b)
    assert state(world) == before
    assert (again.old.superseded_by, again.new.supersedes) == (b, a)
    assert again.old.updated_at == first.old.updated_at
    assert [memory.id for memory in (await world.keep("version 0 of the plan")).similar_memories] == [c]


@pytest.mark.promise("MT-9")
async def test_every_refusal_changes_nothing(world: World) -> None:
    a, b, c, archived, rejected = [await keep(world, f"memory {word}") for word in ("a", "b", "c", "d", "e")]
    foreign = await keep(world, "theirs", namespace="theirs")
    await replace(world, a, b)
    await replace(world, b, c)
    await world.ask(Forgotten, ForgetMemory(memory_id=archived))
    world.rows("update memories set verification = 'rejected' where node_id = %s", rejected)
    free = await keep(world, "memory f")
    unknown = uuid7()
    cases = [
        (unknown, unknown, FaultCode.SELF_LOOP, None),
        ("no id", "no id", FaultCode.SELF_LOOP, None),
        (free, free, FaultCode.SELF_LOOP, None),
        (free, free.upper(), FaultCode.SELF_LOOP, None),
        (unknown, free, FaultCode.MEMORY_NOT_ACTIVE, unknown),
        (free, unknown, FaultCode.MEMORY_NOT_ACTIVE, unknown),
        ("no id", free, FaultCode.MEMORY_NOT_ACTIVE, "no id"),
        (free, "no id", FaultCode.MEMORY_NOT_ACTIVE, "no id"),
        (free, foreign, FaultCode.MEMORY_NOT_ACTIVE, foreign),
        (foreign, free, FaultCode.MEMORY_NOT_ACTIVE, foreign),
        (archived, free, FaultCode.MEMORY_NOT_ACTIVE, archived),
        (free, archived, FaultCode.MEMORY_NOT_ACTIVE, archived),
        (free, rejected, FaultCode.MEMORY_NOT_ACTIVE, rejected),
        (free, a, FaultCode.MEMORY_NOT_ACTIVE, a),
        (a, free, FaultCode.ALREADY_SUPERSEDED, b),
        (b, a, FaultCode.ALREADY_SUPERSEDED, c),
        (c, b, FaultCode.SUPERSEDE_CYCLE, None),
        (c, a, FaultCode.SUPERSEDE_CYCLE, None),
    ]
    before = state(world)
    for old, new, code, named in cases:
        with refused(code) as faults:
            await replace(world, old, new)
        if named is not None:
            assert faults[0].memory_id == named
            assert named in faults[0].error
    assert state(world) == before


@pytest.mark.promise("TP-22")
async def test_untrusted_never_supersedes_trusted(world: World) -> None:
    trusted = await keep(world, "vouched for")
    another = await keep(world, "vouched for too")
    untrusted = await keep(world, "from the web", source_type="research")
    newer = await keep(world, "from the web again", source_type="research")
    before = state(world)
    with refused(FaultCode.UNTRUSTED_SUPERSEDES):
        await replace(world, trusted, untrusted)
    with refused(FaultCode.UNTRUSTED_SUPERSEDES):
        await replace(world, trusted, untrusted, principal=STRANGER)
    for old, new in ((trusted, another), (untrusted, another)):
        with refused(FaultCode.FORBIDDEN):
            await replace(world, old, new, principal=STRANGER)
    assert state(world) == before
    assert (await replace(world, untrusted, newer, principal=STRANGER)).new.partition is Partition.UNTRUSTED
    assert (await replace(world, newer, trusted)).new.partition is Partition.TRUSTED


async def test_a_pending_new_one_may_supersede(world: World) -> None:
    old = await keep(world, "known")
    world.model.down = True
    new = await keep(world, "not embedded yet")
    assert (await replace(world, old, new)).new.state is MemoryState.PENDING


@pytest.mark.promise("MT-9")
async def test_racing_supersessions_never_make_a_cycle_or_two_successors(world: World) -> None:
    ids = [await keep(world, f"racer {number}", verification=Verification.UNVERIFIED) for number in range(4)]
    pairs = list(itertools.permutations(ids, 2))
    outcomes = await asyncio.gather(
        *(world.complete(assignment(SupersedeMemory(old_memory_id=old, new_memory_id=new))) for old, new in pairs),
        return_exceptions=True,
    )
    assert all(not isinstance(outcome, BaseException) or isinstance(outcome, EngramqError) for outcome in outcomes)
    after = {str(row["node_id"]): row["superseded_by"] for row in world.rows("select * from memories")}
    for start in ids:
        seen, here = set(), start
        while after[here] is not None:
            assert here not in seen
            seen.add(here)
            here = str(after[here])
    assert sum(successor is None for successor in after.values()) >= 1
    assert world.count("edges") == sum(successor is not None for successor in after.values())


@pytest.mark.promise("MT-18")
async def test_a_replayed_supersession_gives_the_first_reply(world: World) -> None:
    old, new = await keep(world, "before"), await keep(world, "after")
    command = SupersedeMemory(old_memory_id=old, new_memory_id=new)
    first = await world.complete(assignment(command, idempotency_key="k"))
    again = await world.complete(assignment(command, idempotency_key="k"))
    assert msgspec.to_builtins(first.reply) == msgspec.to_builtins(again.reply)
    await world.ask(Forgotten, ForgetMemory(memory_id=old, erase=True))
    erased = (await world.complete(assignment(command, idempotency_key="k"))).reply
    assert isinstance(erased, Forgotten)
    assert (erased.status, erased.id) == ("erased", old)
