"""Notes may say what memories say: an erasure takes them along, and repeated requests still answer with them."""

import asyncio
from typing import Any

import pytest

from tests.workers.links.asserted.harness import Harness

SECRET = "the password is hunter2"


async def kept(harness: Harness) -> list[str]:
    """Return the tables that hold the secret."""
    tables = ("edges", "deferred_links", "ledger", "audit_log")
    held = await asyncio.gather(*(harness.rows(f"select to_jsonb(t)::text as text from {table} t") for table in tables))
    return [table for table, rows in zip(tables, held, strict=True) if any(SECRET in row["text"] for row in rows)]


@pytest.mark.promise("MT-19", "CN-5")
async def test_nothing_of_a_note_is_left_once_an_end_is_erased(harness: Harness) -> None:
    one, waiting, gone = await harness.memories(3)
    await harness.connect(one, gone, note=SECRET)
    await harness.connect(one, gone, note=f"{SECRET}!")
    await harness.agent.call("disconnect", source=one, target=gone)
    await harness.agent.call("connects", edges=[{"source": one, "target": gone, "note": SECRET}])
    await harness.unembed(waiting)
    await harness.connect(one, waiting, note=SECRET)
    assert await kept(harness) == ["edges", "deferred_links"]
    for memory_id in (gone, waiting):
        await harness.agent.call("forget_memory", memory_id=memory_id, erase=True)
    assert await kept(harness) == []


@pytest.mark.promise("CN-5", "CN-8")
async def test_who_repeats_a_request_is_answered_with_the_note_of_its_time(harness: Harness) -> None:
    one, other, third, waiting = await harness.memories(4)
    await harness.unembed(waiting)
    requests: list[tuple[str, dict[str, Any]]] = [
        ("connect", {"source": one, "target": other, "note": "first"}),
        ("connect", {"source": one, "target": other, "note": "second"}),
        ("connect", {"source": one, "target": other, "note": "unused", "if_exists": "skip"}),
        ("connect", {"source": other, "target": one}),
        ("connect", {"source": one, "target": third}),
        ("connect", {"source": one, "target": waiting, "note": "later"}),
        ("connects", {"edges": [{"source": one, "target": one}, {"source": one, "target": other, "note": "second"},
                                {"source": other, "target": third}]}),
    ]  # fmt: skip
    first = [
        await harness.agent.call(tool, **arguments, idempotency_key=f"k{number}")
        for number, (tool, arguments) in enumerate(requests)
    ]
    again = [
        await harness.agent.call(tool, **arguments, idempotency_key=f"k{number}")
        for number, (tool, arguments) in enumerate(requests)
    ]
    assert again == first
    assert [body.get("note") for body in first] == ["first", "second", "second", "second", None, "later", None]
    told = await asyncio.gather(*(harness.agent.call("get_command", command_id=item["command_id"]) for item in first))
    # The first note is nowhere any more.
    assert told[0]["reply"] == {**first[0], "note": "second"}
    assert [item["reply"] for item in told[1:]] == first[1:]
    conflict = await harness.refused("connects", edges=[], idempotency_key="k6")
    assert conflict["code"] == "idempotency_conflict"
