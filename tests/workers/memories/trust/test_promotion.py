"""Verification, and the one way from untrusted to trusted."""

import asyncio
from typing import Any

import pytest

from engramq.schemas.commands import (
    ForgetMemory,
    Forgotten,
    MemoryChanged,
    Promoted,
    PromoteMemory,
    RestoreMemory,
    Superseded,
    SupersedeMemory,
    Verified,
    VerifyMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import EngramqError, Fault, FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import ALL_SCOPES, MemoryState, Partition, Scope, Verification
from tests.assignments import assignment, repeated
from tests.refusals import refused
from tests.workers.conftest import World

REVIEWER = Principal(name="reviewer", scopes=(Scope.READ, Scope.VERIFY))
CAP = 10
WRITER = Principal(name="writer", scopes=(Scope.READ, Scope.WRITE, Scope.ADMIN))
STRANGER = Principal(name="stranger", scopes=ALL_SCOPES, untrusted=True)


async def research(world: World, content: str = "Research says that geese fly south", **fields: Any) -> str:
    stored = await world.keep(content, source_type="research", **fields)
    assert stored.stored.partition is Partition.UNTRUSTED
    return stored.stored.id


async def verify(world: World, memory_id: str, word: Verification = Verification.VERIFIED, **envelope: Any) -> Verified:
    command = VerifyMemory(memory_id=memory_id, verification=word, reason="read the source")
    return await world.ask(Verified, command, **{"principal": REVIEWER, **envelope})


async def promote(world: World, memory_id: str, **envelope: Any) -> Promoted:
    return await world.ask(Promoted, PromoteMemory(record_id=memory_id), **{"principal": REVIEWER, **envelope})


async def refusal(world: World, memory_id: str, code: FaultCode, **envelope: Any) -> Fault:
    with refused(code) as faults:
        await promote(world, memory_id, **envelope)
    return faults[0]


def stored_state(world: World) -> Any:
    """Everything that a refusal has to leave as it is."""
    return world.rows("select m.*, n.partition as of_node from memories m join nodes n on n.id = m.node_id order by id")


@pytest.mark.promise("TP-14", "TP-15", "TP-19")
@pytest.mark.parametrize("word", [Verification.VERIFIED, Verification.APPROVED])
async def test_what_somebody_vouched_for_is_moved_and_says_who_moved_it(world: World, word: Verification) -> None:
    memory_id = await research(world)
    await verify(world, memory_id, word)
    reply = await promote(world, memory_id)
    memory = reply.memory
    assert (reply.status, memory.partition, memory.verification) == ("promoted", Partition.TRUSTED, word)
    assert memory.promoted_by == "reviewer"
    assert memory.promoted_at is not None
    assert memory.promoted_at >= memory.created_at
    assert (memory.untrusted, memory.warning) == (memory.score, memory.score)  # unset
    assert world.rows("select tableoid::regclass::text as place from memories") == [{"place": "memories_trusted"}]
    entries = world.rows("select actor, action, target_id::text as id, old, new, reason from audit_log order by id")
    before = {"partition": "untrusted", "verification": word}
    assert entries == [
        {
            "actor": "reviewer",
            "action": "verify",
            "id": memory_id,
            "old": {"verification": "unverified"},
            "new": {"verification": word},
            "reason": "read the source",
        },
        {
            "actor": "reviewer",
            "action": "promote",
            "id": memory_id,
            "old": before,
            "new": {**before, "partition": "trusted"},
            "reason": None,
        },
    ]


@pytest.mark.promise("TP-12", "TP-13")
async def test_a_refusal_tells_nothing_of_what_exists(world: World) -> None:
    foreign = await research(world, namespace="elsewhere", verification=Verification.VERIFIED)
    unverified = await research(world)
    rejected = await research(world, verification=Verification.REJECTED)
    gone = await research(world, verification=Verification.UNVERIFIED)
    await world.ask(Forgotten, ForgetMemory(memory_id=gone))
    before = stored_state(world)
    told = [
        await refusal(world, memory_id, FaultCode.RECORD_NOT_VERIFIED)
        for memory_id in (unverified, rejected, foreign, gone, uuid7(), "nonsense", "' or true --", "{%s}")
    ]
    said = {(fault.error, fault.recovery, str(fault.memory_id), str(fault.field)) for fault in told}
    assert len(said) == 1
    assert stored_state(world) == before


@pytest.mark.promise("TP-18")
async def test_repeating_a_promotion_changes_nothing(world: World) -> None:
    memory_id = await research(world, verification=Verification.APPROVED)
    first = await promote(world, memory_id)
    before = stored_state(world)
    again = await promote(world, memory_id)
    assert (again.status, again.memory) == ("already_trusted", first.memory)
    assert stored_state(world) == before
    assert [row["action"] for row in world.rows("select action from audit_log")] == ["promote"]


@pytest.mark.promise("TP-18")
async def test_a_memory_that_was_always_trusted_answers_already_trusted(world: World) -> None:
    memory_id = (await world.keep("seen by ourselves")).stored.id
    reply = await promote(world, memory_id)
    assert (reply.status, reply.memory.promoted_at, reply.memory.promoted_by) == ("already_trusted", None, None)
    assert world.count("audit_log") == 0


@pytest.mark.promise("TP-16")
async def test_everything_of_a_memory_survives_its_promotion(world: World) -> None:
    fields: dict[str, Any] = {"speaker": "Ada", "thread": "geese", "position": 3, "metadata": {"a": [1, {"b": "ü"}]}}
    memory_id = await research(world, external_id="goose-1", verification=Verification.VERIFIED, **fields)
    for name, partition in (("other", Partition.UNTRUSTED), ("third", Partition.TRUSTED)):
        other = (await world.keep(f"{name} of the geese", partition=partition)).stored.id
        world.rows(
            "insert into edges (id, tenant, layer, source_id, target_id, relation, weight, origin, note) values "
            "(%s, make_tenant('default_user'), 'association', least(%s::uuid, %s), greatest(%s::uuid, %s), "
            "'similar', .6, 'agent', 'n')",
            *(uuid7(), memory_id, other, memory_id, other),
        )
    world.rows(
        "insert into memory_usage (node_id, tenant, access_count, helped) "
        "values (%s, make_tenant('default_user'), 7, 2)",
        memory_id,
    )
    kept = (
        "content, metadata, embedding::text, model_id, lexemes::text, speaker, thread, position, created_at, sector, "
        "confidence, created_by"
    )
    before = world.rows(f"select {kept} from memories where node_id = %s", memory_id)
    besides = ("select * from edges order by id", "select * from memory_usage")
    beside = [world.rows(query) for query in besides]
    reply = await promote(world, memory_id)
    assert world.rows(f"select {kept} from memories where node_id = %s", memory_id) == before
    assert [world.rows(query) for query in besides] == beside
    assert (reply.memory.external_id, reply.memory.metadata) == ("goose-1", fields["metadata"])
    assert reply.memory.usefulness == pytest.approx((1.5 + 2) / 4)


@pytest.mark.promise("TP-20")
async def test_eight_promotions_at_once_move_a_memory_once(world: World) -> None:
    for _ in range(5):
        memory_id = await research(world, verification=Verification.VERIFIED)
        replies = await asyncio.gather(*(promote(world, memory_id) for _ in range(8)))
        assert sorted(reply.status for reply in replies) == ["already_trusted"] * 7 + ["promoted"]
        assert len({reply.memory.promoted_at for reply in replies}) == 1
        rows = world.rows("select tableoid::regclass::text as place from memories where node_id = %s", memory_id)
        assert rows == [{"place": "memories_trusted"}]
        assert world.rows("select count(*) as n from audit_log where target_id = %s", memory_id) == [{"n": 1}]


@pytest.mark.promise("TP-20")
async def test_whatever_else_happens_to_a_memory_while_it_is_promoted_happens_too(world: World) -> None:
    memory_id = await research(world, verification=Verification.VERIFIED)

    async def review() -> None:
        for number in range(6):
            await verify(world, memory_id, (Verification.APPROVED, Verification.VERIFIED)[number % 2])

    async def hide_and_show() -> None:
        for _ in range(4):
            await world.ask(Forgotten, ForgetMemory(memory_id=memory_id))
            await world.ask(MemoryChanged, RestoreMemory(memory_id=memory_id))

    async def move() -> None:
        moved = False
        while not moved:
            try:
                await promote(world, memory_id)
                moved = True
            except EngramqError as problem:
                hidden.append(problem.fault.code)

    hidden: list[FaultCode] = []
    async with asyncio.timeout(20):
        await asyncio.gather(review(), hide_and_show(), move())
    assert set(hidden) <= {FaultCode.MEMORY_NOT_ACTIVE}
    (row,) = stored_state(world)
    assert (row["partition"], row["of_node"], row["state"]) == ("trusted", "trusted", MemoryState.ACTIVE)
    entries = world.rows("select old, new from audit_log where action = 'verify' order by id")
    words = [entry["old"]["verification"] for entry in entries] + [entries[-1]["new"]["verification"]]
    assert [entry["new"]["verification"] for entry in entries] == words[1:]  # the entries chain


async def test_what_is_archived_or_superseded_is_not_promoted(world: World) -> None:
    archived = await research(world, verification=Verification.VERIFIED)
    await world.ask(Forgotten, ForgetMemory(memory_id=archived))
    old, new = [await research(world, f"Version {item}", verification=Verification.VERIFIED) for item in "ab"]
    await world.ask(Superseded, SupersedeMemory(old_memory_id=old, new_memory_id=new))
    before = stored_state(world)
    for memory_id in (archived, old):
        fault = await refusal(world, memory_id, FaultCode.MEMORY_NOT_ACTIVE)
        assert fault.memory_id == memory_id
    assert stored_state(world) == before
    assert (await promote(world, new)).memory.supersedes == old


async def test_a_pending_memory_is_promoted_and_completed_later(world: World) -> None:
    world.model.down = True
    memory_id = await research(world, verification=Verification.VERIFIED)
    assert (await promote(world, memory_id)).memory.state is MemoryState.PENDING
    world.model.down = False
    for follow_up in await world.upkeep.look():
        await world.complete(assignment(follow_up.command, namespace=follow_up.namespace))
    (row,) = stored_state(world)
    assert (row["partition"], row["state"], row["embedding"] is None) == ("trusted", MemoryState.ACTIVE, False)


@pytest.mark.promise("TP-18")
async def test_the_answer_of_a_promotion_is_kept_without_content(world: World) -> None:
    memory_id = await research(world, "The goose is called Zenzi", verification=Verification.VERIFIED)
    given = assignment(PromoteMemory(record_id=memory_id), principal=REVIEWER, idempotency_key="k")
    first = await world.complete(given)
    assert "Zenzi" not in str(world.rows("select answer::text from ledger where command = 'memory_promote_to_trusted'"))
    again = await world.complete(repeated(given, attempt=2))
    replayed = await world.complete(
        assignment(PromoteMemory(record_id=memory_id), principal=REVIEWER, idempotency_key="k")
    )
    assert first.reply == again.reply == replayed.reply
    await world.ask(Forgotten, ForgetMemory(memory_id=memory_id, erase=True))
    erased = await world.complete(
        assignment(PromoteMemory(record_id=memory_id), principal=REVIEWER, idempotency_key="k")
    )
    assert isinstance(erased.reply, Forgotten)
    assert (erased.reply.status, erased.reply.id) == ("erased", memory_id)


async def test_verification_tells_old_and_new_and_every_review_is_audited(world: World) -> None:
    memory_id = (await world.keep("reviewed")).stored.id
    words = [Verification.VERIFIED, Verification.VERIFIED, Verification.REJECTED, Verification.UNVERIFIED]
    before = Verification.UNVERIFIED
    for word in words:
        reply = await verify(world, memory_id, word)
        assert (reply.status, reply.old, reply.new) == ("success", before, word)
        before = word
    assert [row["new"]["verification"] for row in world.rows("select new from audit_log order by id")] == [
        "verified",
        "verified",  # a second look is a review too
        "rejected",
        "unverified",
    ]
    foreign = (await world.keep("theirs", namespace="elsewhere")).stored.id
    for unknown in (uuid7(), "nonsense", foreign):
        reply = await verify(world, unknown)
        assert (reply.status, reply.old, reply.new) == ("not_found", None, None)
    assert world.count("audit_log") == 4


def link(world: World, one: str, other: str, weight: float) -> None:
    world.rows(
        "insert into edges (id, tenant, layer, source_id, target_id, relation, weight, origin) values "
        "(%s, make_tenant('default_user'), 'association', least(%s::uuid, %s), greatest(%s::uuid, %s), 'similar', %s, "
        "'similarity')",
        *(uuid7(), one, other, one, other, weight),
    )


@pytest.mark.promise("TP-27", "CN-26")
async def test_links_of_what_is_rejected_no_more_keep_within_the_cap(world: World) -> None:
    hub, back, *others = [(await world.keep(f"memory {number}")).stored.id for number in range(2 + CAP)]
    link(world, hub, back, 0.7)
    await verify(world, back, Verification.REJECTED)
    for place, other in enumerate(others):
        link(world, hub, other, 0.8 + place / 100)
    reply = await verify(world, back, Verification.VERIFIED)
    assert (reply.old, reply.new) == (Verification.REJECTED, Verification.VERIFIED)
    assert world.count("edges") == CAP
    (entry,) = world.rows("select new from audit_log where new->>'verification' = 'verified'")
    assert [{item["memory_id"], item["other_id"]} for item in entry["new"]["displaced"]] == [{hub, back}]


async def test_withdrawing_a_verification_moves_nothing_back(world: World) -> None:
    memory_id = await research(world, verification=Verification.VERIFIED)
    await promote(world, memory_id)
    await verify(world, memory_id, Verification.UNVERIFIED)
    assert stored_state(world)[0]["partition"] == "trusted"
    assert (await promote(world, memory_id)).status == "already_trusted"


@pytest.mark.promise("TP-24", "SE-12")
@pytest.mark.parametrize("principal", [WRITER, STRANGER])
async def test_only_who_may_verify_verifies_and_promotes(world: World, principal: Principal) -> None:
    memory_id = await research(world)
    with refused(FaultCode.FORBIDDEN):
        await verify(world, memory_id, principal=principal)
    await verify(world, memory_id)
    before = stored_state(world)
    for item in (memory_id, uuid7()):
        await refusal(world, item, FaultCode.FORBIDDEN, principal=principal)
    assert stored_state(world) == before
