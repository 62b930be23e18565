"""The steps by which duplicates are found and merged: what is kept apart, and what becomes of repetition and change."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engramq.deploy.cli.duplicates import Digests
from engramq.schemas.commands import (
    Connect,
    Connected,
    DuplicateGroup,
    DuplicatesFound,
    DuplicatesGrouped,
    DuplicatesMerged,
    FindDuplicates,
    ForgetMemory,
    Forgotten,
    GroupDuplicates,
    MergeDuplicates,
    Verified,
    VerifyMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode
from engramq.schemas.vocabulary import ALL_SCOPES, Partition, Scope, Sector, Verification
from engramq.workers.db import vectors
from engramq.workers.memories import duplicates
from tests.assignments import assignment, repeated
from tests.refusals import refused
from tests.workers.conftest import World

TEA = "Anna prefers green tea in the long mornings of winter"
LATER = datetime.now(UTC) + timedelta(days=30)
Groups = dict[str, list[str]]


async def found(world: World, *, namespace: str = "default_user", **asked: Any) -> set[frozenset[str]]:
    """Return what all steps find, as sets of ids that are alike."""
    alike: set[frozenset[str]] = set()
    texts = Digests()
    for way in ("text", "vector"):
        after: str | None = ""
        while after is not None:
            command = FindDuplicates(by=way, after=after, **asked)
            reply = await world.ask(DuplicatesFound, command, namespace=namespace)
            alike |= {frozenset(item) for item in reply.alike}
            assert len(reply.digests or ()) <= duplicates.TEXTS_AT_ONCE
            texts.add(reply.digests or {})
            after = reply.next
    return alike | {frozenset(item) for item in texts.equal()}


async def keep(world: World, content: str = TEA, **fields: Any) -> str:
    return (await world.keep(content, **fields)).stored.id


async def grouped(world: World, *ids: str, similarity: float = 0.9) -> Groups:
    reply = await world.ask(DuplicatesGrouped, GroupDuplicates(alike=(ids,), similarity=similarity))
    return {group.stays: list(group.goes) for group in reply.groups}


async def merge(world: World, groups: Groups, similarity: float = 0.9) -> DuplicatesMerged:
    return await world.ask(DuplicatesMerged, merging(groups, similarity))


def merging(groups: Groups, similarity: float = 0.9) -> MergeDuplicates:
    wanted = tuple(DuplicateGroup(stays=stays, goes=tuple(goes)) for stays, goes in groups.items())
    return MergeDuplicates(groups=wanted, similarity=similarity)


def superseded(world: World) -> dict[str, str]:
    rows = world.rows(
        "select node_id::text as id, superseded_by::text as by from memories where superseded_by is not null"
    )
    return {row["id"]: row["by"] for row in rows}


@pytest.mark.parametrize(
    "fields",
    [
        {"partition": Partition.UNTRUSTED},
        {"project": "geese"},
        {"thread": "a talk"},
        {"thread": "a talk", "position": 1},
        {"speaker": "Zenzi"},
        {"occurred_at": LATER},
        {"valid_from": LATER},
        {"valid_until": LATER},
        {"expires_at": LATER},
        {"tags": ("geese",)},
    ],
    ids="-".join,
)
async def test_memories_that_belong_elsewhere_or_hold_at_another_time_are_kept_apart(
    world: World, fields: dict[str, Any]
) -> None:
    plain, other = await keep(world), await keep(world, **fields)
    assert await found(world) == set()
    assert await grouped(world, plain, other) == {}
    assert (await merge(world, {other: [plain]})).left == [plain]
    again = await keep(world, **fields)
    assert await found(world) == {frozenset({other, again})}
    assert await grouped(world, plain, other, again) == {again: [other]}
    assert superseded(world) == {}


async def test_short_texts_are_said_again_by_chance_but_one_turn_is_there_once(world: World) -> None:
    for _ in range(2):
        await keep(world, "ok, thanks", thread="a talk", speaker="Zenzi")
        await keep(world, "ok, thanks")
    assert await found(world) == set()
    turns = [await keep(world, "ok, thanks", thread="a talk", speaker="Zenzi", position=3) for _ in range(2)]
    await keep(world, "ok, thanks", thread="a talk", speaker="Zenzi", position=4)
    assert await found(world) == {frozenset(turns)}
    assert await grouped(world, *turns) == {turns[1]: [turns[0]]}


async def test_another_namespace_is_neither_found_nor_merged(world: World) -> None:
    own, theirs = await keep(world), [await keep(world, namespace="elsewhere") for _ in range(2)]
    assert await found(world) == set()
    assert await found(world, namespace="elsewhere") == {frozenset(theirs)}
    assert await grouped(world, own, *theirs) == {}
    done = await merge(world, {own: [theirs[0]], theirs[1]: ["no id"]})
    assert (done.merged, sorted(done.left)) == (0, sorted([theirs[0], "no id"]))
    assert superseded(world) == {}


async def test_a_trusted_memory_never_goes_for_an_untrusted_one(world: World) -> None:
    trusted, untrusted = await keep(world), await keep(world, source_type="research")
    for stays, goes in ((trusted, untrusted), (untrusted, trusted)):
        assert (await merge(world, {stays: [goes]})).left == [goes]


async def test_what_somebody_chose_or_linked_by_hand_stays(world: World) -> None:
    chosen = await keep(world, sector=Sector.EPISODIC)
    linked, other = await keep(world), await keep(world, "The geese come back to the lake in spring")
    await world.ask(Connected, Connect(source=linked, target=other))
    new = await keep(world)
    assert await grouped(world, chosen, linked, new) == {linked: [new]}
    assert (await merge(world, {new: [chosen, linked]})).left == [chosen, linked]


async def test_what_is_brought_again_by_its_external_id_stays(world: World) -> None:
    """Else the next import would change what nobody finds any more."""
    named, plain, other = await keep(world, external_id="e1"), await keep(world), await keep(world, external_id="e2")
    assert await grouped(world, named, plain, other) == {other: [plain]}
    done = await merge(world, {other: [plain, named]})
    assert (done.merged, done.left) == (1, [named])


async def test_memories_are_compared_without_a_transaction(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on the event loop either: others of this process go on meanwhile."""
    old, new = await keep(world), await keep(world)
    held = "select count(*) as n from pg_stat_activity where datname = current_database() and state like 'idle in tr%%'"
    seen: list[tuple[int, bool]] = []

    def watched(*given: Any) -> Any:
        seen.append((world.rows(held)[0]["n"], threading.current_thread() is threading.main_thread()))
        return judged(*given)

    judged = duplicates.grouped
    monkeypatch.setattr(duplicates, "grouped", watched)
    assert await grouped(world, old, new) == {new: [old]}
    assert seen == [(0, False)]


async def test_what_is_hidden_is_no_duplicate(world: World) -> None:
    ids = [await keep(world) for _ in range(4)]
    await world.ask(Forgotten, ForgetMemory(memory_id=ids[0]))
    await world.ask(Verified, VerifyMemory(memory_id=ids[1], verification=Verification.REJECTED))
    assert await found(world) == {frozenset(ids[2:])}
    assert await grouped(world, *ids) == {ids[3]: [ids[2]]}
    assert (await merge(world, {ids[3]: ids[:2]})).left == ids[:2]
    assert (await merge(world, {ids[0]: ids[2:]})).left == ids[2:]


async def test_a_merge_repeated_changes_nothing_more(world: World) -> None:
    ids = [await keep(world) for _ in range(3)]
    command = assignment(merging({ids[2]: ids[:2]}))
    reply = (await world.complete(command)).reply
    assert isinstance(reply, DuplicatesMerged)
    assert (reply.merged, reply.left) == (2, [])
    assert superseded(world) == {ids[0]: ids[2], ids[1]: ids[2]}
    before = world.rows("select * from memories order by node_id"), world.count("audit_log"), world.count("edges")
    assert (await world.complete(repeated(command, attempt=2))).reply == reply
    again = await merge(world, {ids[2]: ids[:2]})
    assert (again.merged, again.left) == (0, ids[:2])
    after = world.rows("select * from memories order by node_id"), world.count("audit_log"), world.count("edges")
    assert after == before
    assert await found(world) == set()


async def test_what_changed_after_it_was_listed_is_left(world: World) -> None:
    old, new = await keep(world), await keep(world)
    assert await grouped(world, old, new) == {new: [old]}
    await world.ask(Verified, VerifyMemory(memory_id=old, verification=Verification.VERIFIED))
    assert (await merge(world, {new: [old]})).left == [old]
    assert await grouped(world, old, new) == {old: [new]}


async def test_only_administrators_find_and_merge(world: World) -> None:
    ids = (await keep(world), await keep(world))
    writer = Principal(name="writer", scopes=(Scope.READ, Scope.WRITE, Scope.VERIFY))
    stranger = Principal(name="stranger", scopes=ALL_SCOPES, untrusted=True)
    for principal in (writer, stranger):
        for command in (
            FindDuplicates(by="text"),
            FindDuplicates(by="vector"),
            GroupDuplicates(alike=(ids,), similarity=0.9),
            merging({ids[1]: [ids[0]]}),
        ):
            with refused(FaultCode.FORBIDDEN):
                await world.complete(assignment(command, principal=principal))
    assert superseded(world) == {}


async def test_steps_are_bounded(world: World) -> None:
    many = tuple(str(number) for number in range(1_001))
    for command in (
        GroupDuplicates(alike=(many[:600], many[:600]), similarity=0.9),
        merging({"a": list(many[:101])}),
        merging({"a": ["b", "b"]}),
        merging({"a": ["b"], "b": ["c"]}),
    ):
        with refused(FaultCode.INVALID_PARAMETER):
            command.check()


async def test_without_a_model_nothing_is_found_and_the_caller_is_told(world: World) -> None:
    world.model.down = True
    with refused(FaultCode.UNAVAILABLE):
        await world.complete(assignment(FindDuplicates(by="vector")))


async def test_every_step_goes_on_where_the_last_one_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["copper", "walnut", "linen", "marble", "willow", "amber", "velvet"]
    pairs = set()
    for word in words:
        plain = await keep(world, f"There is a {word} basket with {word} handles for sale")
        pairs.add(frozenset({plain, await keep(world, f"There is a {word} basket with {word} handles for sale!")}))
        await keep(world, f"Somebody painted the old {word} gate of the harbour")
    equal = frozenset({await keep(world), await keep(world), await keep(world)})
    for name, value in (("TEXTS_AT_ONCE", 3), ("LOOKED_UP_AT_ONCE", 4), ("LOOKED_UP_TOGETHER", 3)):
        monkeypatch.setattr(duplicates, name, value)
    every = await found(world)
    assert {item for item in every if len(item) == 2 and not item <= equal} == pairs
    assert equal in every


async def test_the_index_finds_what_a_scan_finds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(40):
        await keep(world, f"The {'walnut' if number % 2 else 'copper'} clock stops at noon {'.' * number}")
    by_scan = await found(world, similarity=0.9)
    monkeypatch.setattr(vectors, "SMALL_ROWS", -1)
    monkeypatch.setattr(vectors, "EXACT_ROWS", -1)
    by_index = await found(world, similarity=0.9)
    parts = [{item for several in alike for item in several} for alike in (by_scan, by_index)]
    assert parts[0] == parts[1]
    assert len(parts[0]) == 40
