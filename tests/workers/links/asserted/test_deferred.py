"""Links that wait for a pending end: made once both ends are active, dropped when one is gone."""

import asyncio
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from engramq.schemas import limits
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE
from engramq.workers.db.database import Store
from engramq.workers.links.deferred import find_due, settle_deferred
from tests.conftest import Database
from tests.scenarios.stage import agent_of, stage_settings, staged, until
from tests.workers.links.asserted.conftest import CAP, RULES
from tests.workers.links.asserted.harness import Harness


async def settle(store: Store, *ids: str) -> int:
    return await store.write(
        DEFAULT_NAMESPACE, lambda tx: settle_deferred(tx, [UUID(item) for item in ids], rules=RULES)
    )


async def due(store: Store) -> set[str]:
    found = await store.read(DEFAULT_NAMESPACE, lambda tx: find_due(tx, limit=100))
    return {str(item) for item in found}


@dataclass
class Waking:
    """Memories that are pending until they are woken."""

    harness: Harness
    kept: list[dict[str, Any]]

    @classmethod
    async def of(cls, harness: Harness, *ids: str) -> "Waking":
        """Let these memories be pending, once the follow-ups of their stores, which settle links too, have ended."""

        async def quiet() -> bool:
            return await harness.rows("select node_id from memories where links_made_at is null") == []

        await until(quiet)
        kept = await harness.rows("select node_id, embedding::text as vector, model_id from memories")
        await harness.unembed(*ids)
        return cls(harness, kept)

    async def wake(self, *ids: str) -> None:
        for row in self.kept:
            if str(row["node_id"]) in ids:
                await self.harness.rows(
                    "update memories set state = 'active', embedding = %s::halfvec, model_id = %s where node_id = %s",
                    row["vector"], row["model_id"], row["node_id"],
                )  # fmt: skip


async def resolved(harness: Harness, command_id: str) -> dict[str, Any]:
    report = await harness.agent.call("get_command", command_id=command_id)
    assert report["status"] == "done"
    found: dict[str, Any] = report["reply"].get("resolved", {})
    return found


@pytest.mark.promise("CN-17", "OV-3")
async def test_a_link_to_a_pending_memory_waits_and_is_made_when_it_is_active(harness: Harness, store: Store) -> None:
    one, pending = await harness.memories(2)
    waking = await Waking.of(harness, pending)
    body = await harness.connect(one, pending, relation="supports", weight=3, note="later")
    assert [body[name] for name in ("action", "relation", "weight", "note", "reinforcement_count")] == [
        "deferred", "supports", 1.0, "later", 0]  # fmt: skip
    assert "resolved" not in body
    again = await harness.connect(pending, one)
    assert [again["action"], again["source_id"], again["relation"], again["weight"]] == [
        "deferred", pending, "similar", 0.65]  # fmt: skip
    assert (await harness.links(), await settle(store, one, pending), await due(store)) == ([], 0, set())
    await waking.wake(pending)
    assert await due(store) & {one, pending}
    assert await settle(store, pending) == 2
    assert (await due(store), await settle(store, pending)) == (set(), 0)
    (row,) = await harness.links()
    assert [row[name] for name in ("relation", "weight", "note", "origin", "reinforcement_count")] == [
        "supports", 1.0, "later", "agent", 1]  # fmt: skip
    assert (row["created_by"], row["updated_by"]) == ("I/O", "I/O")  # who asked for it, not who settled it
    assert str(row["declared_from"]) == one
    first, second = await resolved(harness, body["command_id"]), await resolved(harness, again["command_id"])
    assert [(told["state"], told["action"]) for told in (first, second)] == [
        ("made", "created"),
        ("made", "reinforced"),
    ]
    assert first["at"].endswith("Z")
    audited = await harness.audited("resolve_deferred")
    assert [(row["new"]["action"], str(row["command_id"]), row["actor"]) for row in audited] == [
        ("created", body["command_id"], "I/O"), ("reinforced", again["command_id"], "I/O")]  # fmt: skip


@pytest.mark.promise("CN-17")
async def test_each_waiting_link_is_a_connect_of_its_own(harness: Harness, store: Store) -> None:
    """One that is refused, or whose other end is gone, keeps no other from being made."""
    pending, one, other, archived, full, *more = await harness.memories(5 + CAP)
    await harness.fill(full, more)
    waking = await Waking.of(harness, pending)
    requests: list[dict[str, Any]] = [
        {"target": archived},
        {"target": one, "relation": "supports"},
        {"target": one, "relation": "contradicts"},
        {"target": full},
        {"target": one, "relation": "mine", "if_exists": "update"},
        {"target": one, "if_exists": "skip"},
        {"target": one, "if_exists": "error"},
        {"target": other, "note": "last"},
    ]
    bodies = [await harness.connect(pending, **request) for request in requests]
    assert {body["action"] for body in bodies} == {"deferred"}
    await harness.agent.call("forget_memory", memory_id=archived)
    assert await due(store) == {pending}
    assert await settle(store, archived) == 1
    await waking.wake(pending)
    assert await settle(store, one, other, full) == 7
    told = [await resolved(harness, body["command_id"]) for body in bodies]
    assert [item["code"] or item["action"] for item in told] == [
        "memory_not_active", "created", "relation_conflict", "degree_limit", "updated", "skipped", "edge_exists",
        "created"]  # fmt: skip
    assert [item["state"] for item in told] == [
        "dropped", "made", "dropped", "dropped", "made", "made", "dropped", "made"]  # fmt: skip
    assert (await harness.link(pending, one) or {})["relation"] == "mine"
    assert (await harness.link(pending, other) or {})["note"] == "last"
    assert len(await harness.links(pending)) == 2
    assert len(await harness.audited("resolve_deferred")) == 8


@pytest.mark.promise("CN-17", "CN-33")
async def test_items_of_a_batch_are_told_in_their_place(harness: Harness, store: Store) -> None:
    one, other, first, second = await harness.memories(4)
    waking = await Waking.of(harness, first, second)
    edges = [
        {"source": one, "target": one},
        {"source": one, "target": first},
        {"source": one, "target": other},
        {"source": first, "target": second},
    ]
    body = await harness.agent.call("connects", edges=edges)
    assert (body["deferred"], body["created"]) == (2, 1)
    await waking.wake(first)
    assert await settle(store, first, second) == 1
    await harness.agent.call("forget_memory", memory_id=second, erase=True)
    assert await due(store) == {first}
    assert await settle(store, first) == 1
    reply = (await harness.agent.call("get_command", command_id=body["command_id"]))["reply"]
    told = {result["index"]: result.get("resolved") for result in reply["results"]}
    assert (told[1]["state"], told[2], told[3]["code"]) == ("made", None, "memory_not_active")
    assert await harness.pairs() == {(one, other), (one, first)}


@pytest.mark.promise("CN-17", "CN-28")
async def test_disconnect_removes_a_link_that_waits(harness: Harness, store: Store) -> None:
    one, pending = await harness.memories(2)
    waking = await Waking.of(harness, pending)
    body = await harness.connect(one, pending, relation="supports")
    ends = {"source": pending, "target": one}
    guarded = await harness.agent.call("disconnect", **ends, guard_relation="similar")
    assert guarded["action"] == "guarded"
    removed = await harness.agent.call("disconnect", **ends, reason="no")
    assert [removed[name] for name in ("action", "removed_relation", "removed_weight")] == ["removed", "supports", 0.75]
    assert (await harness.agent.call("disconnect", **ends))["action"] == "not_found"
    assert (await resolved(harness, body["command_id"]))["state"] == "dropped"
    (row,) = await harness.audited("disconnect")
    assert (row["old"]["relation"], row["old"]["deferred"], row["reason"]) == ("supports", 1, "no")
    await waking.wake(pending)
    assert await settle(store, pending) == 0
    assert await harness.links() == []


@pytest.mark.promise("CN-15", "CN-17", "TP-22")
async def test_what_could_never_be_linked_does_not_wait(harness: Harness) -> None:
    pending, archived = await harness.memories(2)
    (untrusted,) = await harness.memories(1, partition="untrusted")
    await harness.agent.call("forget_memory", memory_id=archived)
    await harness.unembed(pending)
    assert (await harness.refused("connect", source=pending, target=untrusted))["code"] == "untrusted_link"
    assert (await harness.refused("connect", source=pending, target=archived))["code"] == "memory_not_active"


@pytest.mark.promise("CN-17")
async def test_only_so_many_links_wait_for_one_memory(harness: Harness) -> None:
    one, pending = await harness.memories(2)
    await harness.unembed(pending)
    edges = [{"source": one, "target": pending}] * (limits.DEFERRED_LINKS + 1)
    body = await harness.agent.call("connects", edges=edges)
    assert body["deferred"] == limits.DEFERRED_LINKS
    assert [(error["index"], error["code"], error["memory_id"]) for error in body["errors"]] == [
        (limits.DEFERRED_LINKS, "degree_limit", pending)]  # fmt: skip
    refused = await harness.refused("connect", source=pending, target=one)
    assert (refused["code"], "active" in refused["recovery"]) == ("degree_limit", True)


@pytest.mark.promise("CN-17")
async def test_those_who_settle_at_once_settle_each_link_once(harness: Harness, store: Store) -> None:
    *others, pending = await harness.memories(CAP + 1)
    waking = await Waking.of(harness, pending)
    for other in others:
        await harness.connect(pending, other)
    await waking.wake(pending)
    settled = await asyncio.gather(*(settle(store, item) for item in (pending, *others, pending)))
    assert sum(settled) == CAP
    assert [row["reinforcement_count"] for row in await harness.links()] == [0] * CAP


@pytest.mark.promise("CN-17")
@pytest.mark.long
async def test_the_pipeline_makes_a_link_that_waited_once_its_memory_is_embedded(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    settings = stage_settings(database, redis_url, key_prefix, link_threshold="1")
    async with staged(settings) as stage, agent_of(await stage.gateway()) as agent:
        harness = Harness(agent, database)
        one, pending = await harness.memories(2)
        await harness.unembed(pending)
        body = await harness.connect(pending, one, note="waits")
        # The memory was stored long ago, so the sweep finds it.
        await harness.rows(
            "update memories set created_at = now() - interval '1 hour' where node_id = %s", UUID(pending)
        )

        async def told() -> bool:
            return (await resolved(harness, body["command_id"])).get("state") == "made"

        await until(told)
        assert [(row["note"], row["origin"]) for row in await harness.links()] == [("waits", "agent")]
