"""When memories hold and when they expire, as agents meet it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engramq.schemas.ids import format_time
from tests.scenarios.stage import Agent, until

MAY, JUNE, JULY = "2023-05-10T00:00:00Z", "2023-06-10T00:00:00Z", "2023-07-10T00:00:00Z"


async def supersede(agent: Agent, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return await agent.call("supersede_memory", old_memory_id=old["id"], new_memory_id=new["id"])


async def read(agent: Agent, memory_id: str, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await agent.call("get_memory", memory_id=memory_id, **arguments))["memory"]
    return found


@pytest.mark.promise("TI-1", "TI-2")
async def test_what_held_then_is_found_and_what_holds_no_longer_is_not(agent: Agent) -> None:
    ended = await agent.store("The office is in Graz", valid_from="2023-05-01", valid_until="2023-05-31")
    open_one = await agent.store("The office has a cat", valid_from="2023-06-01")
    plan = await agent.store("The office moves to Linz", valid_from="2999-01-01")
    assert ended["valid_from"] == "2023-05-01T00:00:00.000000Z"
    assert ended["valid_until"] == "2023-05-31T23:59:59.999999Z"
    assert open_one["valid_until"] is None

    now = [plan["content"], open_one["content"]]
    assert await agent.recent() == now
    assert set(await agent.found("office")) == set(now)
    for moment, held in ((MAY, [ended]), (JULY, [open_one]), ("2023-04-30", [])):
        contents = [item["content"] for item in held]
        assert await agent.recent(as_of=moment) == contents
        assert await agent.found("office", as_of=moment) == contents
        assert await agent.found("office", as_of=moment, ranking="similarity") == contents
    assert set(await agent.recent(include_superseded=True)) == {*now, ended["content"]}
    assert (await read(agent, ended["id"]))["content"] == ended["content"]
    similar = await agent.call("store_memory", content="The office is in Graz now")
    assert ended["id"] not in [memory["id"] for memory in similar["similar_memories"]]


@pytest.mark.promise("TI-1", "TI-2")
async def test_a_supersession_ends_the_old_one_where_the_new_one_begins(agent: Agent) -> None:
    old = await agent.store("Ada works at Acme", valid_from=MAY)
    new = await agent.store("Ada works at Initech", valid_from=JUNE)
    reply = await supersede(agent, old, new)
    assert reply["old"]["valid_until"] == reply["new"]["valid_from"] == "2023-06-10T00:00:00.000000Z"
    assert await agent.recent() == [new["content"]]
    for moment, content in ((MAY, old["content"]), (JULY, new["content"]), (JUNE, new["content"])):
        assert await agent.recent(as_of=moment) == [content]
        assert await agent.found("Where does Ada work", as_of=moment) == [content]

    restored = await agent.call("restore_memory", memory_id=old["id"])
    assert restored["memory"]["valid_until"] is None
    assert set(await agent.recent(as_of=JULY)) == {old["content"], new["content"]}


@pytest.mark.promise("TI-1")
async def test_without_a_beginning_of_its_own_the_new_one_begins_when_it_was_stored(agent: Agent) -> None:
    old, new = await agent.store("The stand-up is at 9"), await agent.store("The stand-up is at 10")
    assert (await supersede(agent, old, new))["old"]["valid_until"] == new["created_at"]
    assert await agent.recent(as_of=old["created_at"]) == [old["content"]]
    assert await agent.recent(as_of=new["created_at"]) == [new["content"]]
    assert await agent.recent(as_of=MAY) == []


@pytest.mark.promise("TI-1", "TI-2")
async def test_an_end_of_its_own_stays_and_the_replacement_ends_it_all_the_same(agent: Agent) -> None:
    own_end = "2999-01-01T00:00:00.000000Z"
    old = await agent.store("The contract is with Acme", valid_from=MAY, valid_until=own_end)
    new = await agent.store("The contract is with Initech", valid_from=JUNE)
    assert (await supersede(agent, old, new))["old"]["valid_until"] == own_end
    assert await agent.recent(as_of=MAY) == [old["content"]]
    assert await agent.recent(as_of=JULY) == await agent.found("contract", as_of=JULY) == [new["content"]]
    assert (await agent.call("restore_memory", memory_id=old["id"]))["memory"]["valid_until"] == own_end


@pytest.mark.promise("TI-1")
async def test_a_plan_that_is_replaced_before_it_begins_never_holds(agent: Agent) -> None:
    plan = await agent.store("We move to Linz", valid_from="2999-01-01")
    instead = await agent.store("We stay in Graz")
    reply = await supersede(agent, plan, instead)
    assert reply["old"]["valid_until"] == reply["old"]["valid_from"]
    assert await agent.recent() == [instead["content"]]


@pytest.mark.promise("TI-1")
async def test_an_end_of_its_own_where_the_new_one_begins_stays_too(agent: Agent) -> None:
    old = await agent.store("Ada works at Acme", valid_from=MAY, valid_until=JUNE)
    new = await agent.store("Ada works at Initech", valid_from=JUNE)
    await supersede(agent, old, new)
    restored = await agent.call("restore_memory", memory_id=old["id"])
    assert restored["memory"]["valid_until"] == old["valid_until"]
    assert "valid_until" in restored["notice"]


@pytest.mark.promise("TI-1", "TI-2")
async def test_the_old_one_ends_wherever_the_new_one_begins_by_now(agent: Agent) -> None:
    old = await agent.store("Ada works at Acme", valid_from=MAY)
    new = await agent.store("Ada works at Initech")
    assert (await supersede(agent, old, new))["old"]["valid_until"] == new["created_at"]
    assert await agent.recent(as_of=JULY) == [old["content"]]
    await agent.call("update_memory", memory_id=new["id"], valid_from=JUNE)
    assert (await read(agent, old["id"]))["valid_until"] == "2023-06-10T00:00:00.000000Z"
    assert await agent.recent(as_of=JULY) == [new["content"]]
    await agent.call("update_memory", memory_id=new["id"], clear=["valid_from"])
    assert (await read(agent, old["id"]))["valid_until"] == new["created_at"]


@pytest.mark.promise("TI-1", "TI-7")
async def test_an_end_by_replacement_is_nobodys_word(agent: Agent) -> None:
    plan = await agent.store("We move to Linz", valid_from="2999-01-01")
    instead = await agent.store("We stay in Graz")
    await supersede(agent, plan, instead)
    earlier = await agent.call("update_memory", memory_id=plan["id"], valid_from=MAY)
    assert earlier["memory"]["valid_until"] == instead["created_at"]
    later = await agent.call("update_memory", memory_id=plan["id"], valid_from="2999-06-01")
    assert later["status"] == "updated"
    assert (await agent.call("restore_memory", memory_id=plan["id"]))["memory"]["valid_until"] is None


@pytest.mark.promise("TI-1", "TI-3")
async def test_what_an_update_or_a_supersession_hides_is_said(agent: Agent) -> None:
    memory, other = (
        await agent.store("The fair is on"),
        await agent.store("The fair is cancelled", valid_from="2999-01-01"),
    )
    ended = await agent.call("update_memory", memory_id=memory["id"], valid_from=MAY, valid_until=JUNE)
    assert "valid_until" in ended["notice"]
    assert "notice" not in await agent.call("update_memory", memory_id=memory["id"], confidence=0.5)
    assert "notice" not in await agent.call("update_memory", memory_id=memory["id"], clear=["valid_until"])
    assert "hidden at once" in (await supersede(agent, memory, other))["notice"]
    gone = await agent.call("update_memory", memory_id=other["id"], expires_at=JUNE)
    assert (gone["memory"]["state"], "restore_memory" in gone["notice"]) == ("archived", True)


@pytest.mark.promise("TI-2")
async def test_links_lead_to_what_held_then(agent: Agent) -> None:
    hub = await agent.store("Ada", valid_from=MAY)
    old = await agent.store("The desk is by the window", valid_from=MAY, valid_until=JUNE)
    new = await agent.store("The desk is by the door", valid_from=JUNE)
    for item in (old, new):
        await agent.call("connect", source=hub["id"], target=item["id"], relation="elaborates")

    async def linked(**arguments: Any) -> list[str]:
        links = (await agent.call("get_memory", memory_id=hub["id"], **arguments))["links"]
        return [link["memory_id"] for link in links if link["relation"] == "elaborates"]

    assert await linked() == await linked(as_of=JULY) == [new["id"]]
    assert await linked(as_of=MAY) == [old["id"]]
    via = [memory["id"] for memory in await agent.search("Ada", as_of=MAY)]
    assert new["id"] not in via


@pytest.mark.promise("TI-2")
async def test_what_was_rejected_archived_or_expired_held_never(agent: Agent) -> None:
    rejected, archived, expired = [
        await agent.store(f"The {word} safe is open", valid_from=MAY) for word in ("red", "green", "blue")
    ]
    assert len(await agent.found("safe", as_of=JUNE)) == 3
    await agent.call("verify_memory", memory_id=rejected["id"], verification="rejected")
    await agent.call("forget_memory", memory_id=archived["id"])
    await agent.call("update_memory", memory_id=expired["id"], expires_at=JULY)
    assert await agent.recent(as_of=JUNE) == await agent.found("safe", as_of=JUNE) == []


@pytest.mark.promise("TI-2", "TI-7")
async def test_the_future_and_backwards_intervals_are_refused_by_name(agent: Agent) -> None:
    memory = await agent.store("A fact", valid_from=JUNE)
    to_come = format_time(datetime.now(UTC) + timedelta(days=1))
    for tool, arguments in (
        ("search_memories", {"query": "fact"}),
        ("list_recent_memories", {}),
        ("get_memory", {"memory_id": memory["id"]}),
    ):
        assert await agent.refusal_of(tool, **arguments, as_of=to_come) == "as_of"
    interval = {"valid_from": JUNE, "valid_until": MAY}
    for refused in (
        await agent.call("store_memory", content="Backwards", **interval),
        await agent.call("store_memory", content="Empty", valid_from=JUNE, valid_until=JUNE),
        await agent.call("update_memory", memory_id=memory["id"], **interval),
        await agent.call("update_memory", memory_id=memory["id"], valid_until=MAY),
        await agent.call("update_memory", memory_id=memory["id"], clear=["valid_from"], **interval),
    ):
        assert refused["status"] == "invalid_parameter"
        assert refused["field"] in {"valid_until", "clear"}
    assert (await read(agent, memory["id"]))["valid_until"] is None
    changed = await agent.call("update_memory", memory_id=memory["id"], valid_until=MAY, clear=["valid_from"])
    assert changed["memory"]["valid_until"] == "2023-05-10T00:00:00.000000Z"


@pytest.mark.promise("TI-2")
async def test_as_of_today_is_now_and_another_day_its_beginning(agent: Agent) -> None:
    memory = await agent.store("Written a moment ago")
    today = datetime.now(UTC).date()
    assert await agent.recent(as_of=today.isoformat()) == [memory["content"]]
    assert await agent.recent(as_of=(today - timedelta(days=1)).isoformat()) == []


@pytest.mark.promise("TI-2")
async def test_a_cursor_of_today_goes_on_today(agent: Agent) -> None:
    contents = [(await agent.store(f"Fact {number}"))["content"] for number in range(3)]
    for number in range(3):
        await agent.call("graph_add_edge", source_name="Ada", target_name=f"Fact {number}", relation="KNOWS")
    today = datetime.now(UTC).date().isoformat()
    for tool, arguments, listed in (
        ("list_recent_memories", {}, "memories"),
        ("graph_list_edges", {"node_name": "Ada"}, "edges"),
    ):
        found: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await agent.call(tool, **arguments, **cursor, as_of=today, limit=1)
            found += [item.get("content") or item["target"]["name"] for item in page[listed]]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert sorted(found) == contents
        (first,) = (await agent.call(tool, **arguments, as_of=today, limit=1))[listed]
        assert first
        assert (await agent.call(tool, **arguments, **cursor, as_of="2023-05-01", limit=1))["field"] == "cursor"


@pytest.mark.promise("TI-3")
@pytest.mark.long
async def test_what_expires_is_hidden_at_its_time_and_can_be_restored(agent: Agent) -> None:
    later = format_time(datetime.now(UTC) + timedelta(hours=1))
    kept = await agent.store("The door code is 4711")
    memory = await agent.store("The door code is 1234", expires_at=later)
    other = await agent.store("The door has a camera")
    await agent.call("connect", source=memory["id"], target=other["id"], relation="supports")
    assert memory["expires_at"] == later
    assert set(await agent.recent()) == {item["content"] for item in (kept, memory, other)}
    soon = format_time(datetime.now(UTC) + timedelta(seconds=1.0))
    await agent.call("update_memory", memory_id=memory["id"], expires_at=soon)

    async def has_expired() -> bool:
        return bool((await read(agent, memory["id"]))["state"] == "archived")

    await until(has_expired)
    assert memory["content"] not in await agent.recent()
    assert memory["content"] not in await agent.found("door code", include_superseded=True)
    assert await agent.recent(states=["archived"]) == [memory["content"]]
    links = (await agent.call("get_memory", memory_id=other["id"]))["links"]
    assert memory["id"] not in [link["memory_id"] for link in links]
    for refused in (
        await agent.call("connect", source=memory["id"], target=kept["id"]),
        await supersede(agent, kept, memory),
    ):
        assert refused["code"] == "memory_not_active"
        assert "archived" in refused["error"]

    later = format_time(datetime.now(UTC) + timedelta(days=1))
    await agent.call("update_memory", memory_id=memory["id"], expires_at=later)
    assert (await read(agent, memory["id"]))["state"] == "archived", "only a restoration brings it back"
    await agent.call("update_memory", memory_id=memory["id"], expires_at=soon)
    restored = await agent.call("restore_memory", memory_id=memory["id"])
    assert (restored["memory"]["state"], restored["memory"]["expires_at"]) == ("active", None)
    assert memory["content"] in await agent.found("door code")
    links = (await agent.call("get_memory", memory_id=other["id"]))["links"]
    assert memory["id"] in [link["memory_id"] for link in links]


@pytest.mark.promise("TI-3")
async def test_a_time_that_has_not_passed_stays_when_a_forgotten_memory_is_restored(agent: Agent) -> None:
    memory = await agent.store("The code is 1234", expires_at="2999-12-31")
    await agent.call("forget_memory", memory_id=memory["id"])
    restored = (await agent.call("restore_memory", memory_id=memory["id"]))["memory"]
    assert restored["expires_at"] == "2999-12-31T23:59:59.999999Z"
    cleared = await agent.call("update_memory", memory_id=memory["id"], clear=["expires_at"])
    assert cleared["memory"]["expires_at"] is None


@pytest.mark.promise("TI-3")
async def test_a_store_of_what_has_passed_says_so(agent: Agent) -> None:
    expired = await agent.call("store_memory", content="Long gone", expires_at=MAY)
    assert expired["stored"]["state"] == "archived"
    assert "expires_at" in expired["notice"]
    ended = await agent.call("store_memory", content="Was so", valid_from=MAY, valid_until=JUNE)
    assert "as_of" in ended["notice"]
    never = await agent.call("store_memory", content="Was never so", valid_until=JUNE)
    assert "update_memory takes valid_from" in never["notice"]
    assert await agent.recent() == []
    assert await agent.recent(as_of="2023-05-20") == ["Was so"]


@pytest.mark.promise("TI-1")
async def test_a_restoration_says_what_keeps_a_memory_hidden(agent: Agent) -> None:
    memory = await agent.store("The fair is on", valid_from=MAY, valid_until=JUNE)
    await agent.call("forget_memory", memory_id=memory["id"])
    restored = await agent.call("restore_memory", memory_id=memory["id"])
    assert "valid_until" in restored["notice"]
    cleared = await agent.call("update_memory", memory_id=memory["id"], clear=["valid_until"])
    assert cleared["memory"]["valid_until"] is None
    assert await agent.recent() == [memory["content"]]
    await agent.call("verify_memory", memory_id=memory["id"], verification="rejected")
    assert "verify_memory" in (await agent.call("restore_memory", memory_id=memory["id"]))["notice"]


@pytest.mark.promise("TI-7")
async def test_a_span_that_ends_before_it_begins_is_refused_by_name(agent: Agent) -> None:
    for tool, arguments in (("search_memories", {"query": "fact"}), ("audit", {})):
        assert await agent.refusal_of(tool, **arguments, since=JUNE, until=MAY) == "until"
        assert (await agent.call(tool, **arguments, since=MAY, until=MAY))["status"] == "success"


@pytest.mark.promise("TI-5")
async def test_a_question_of_what_was_is_told_how_to_see_it(agent: Agent) -> None:
    old = await agent.store("The rent of the studio is 950 euros", valid_from="2025-01-01")
    new = await agent.store("The rent of the studio is 1,020 euros", valid_from="2026-05-01")
    await supersede(agent, old, new)
    said = f"{new['id']} replaced an earlier memory: include_superseded=true shows it too"

    async def notice(query: str, **arguments: Any) -> str | None:
        reply = await agent.call("search_memories", query=query, **arguments)
        assert [hit["id"] for hit in reply["memories"]][:1] == [old["id"] if arguments else new["id"]]
        found: str | None = reply.get("notice")
        return found

    assert await notice("What was the rent of the studio before May 2026?") == (
        f'{said}, as_of="2026-04-30" what held then.'
    )
    assert await notice("What was the rent of the studio in 2025?") == f'{said}, as_of="2025-12-31" what held then.'
    assert await notice("What used to be the rent of the studio?") == f"{said}."
    assert await notice("What was the rent of the studio before?") == f"{said}."
    # The memory that was replaced held from 2025 on, and no search of an earlier day shows it.
    assert await notice("What was the rent of the studio in 2024?") == f"{said}."
    assert await notice("What is the rent of the studio?") is None
    assert await notice("What is the rent of the studio before taxes?") is None
    assert await notice("What is the rent of the studio used to pay?") is None
    await agent.call("verify_memory", memory_id=old["id"], verification="rejected")
    assert await notice("What used to be the rent of the studio?") is None
    await agent.call("verify_memory", memory_id=old["id"], verification="unverified")
    assert await notice("What was the rent of the studio in 2025?", as_of="2025-12-31") is None


@pytest.mark.promise("TI-5")
@pytest.mark.parametrize(
    ("was", "now", "asked"),
    [
        ("Die Miete des Ateliers beträgt 950 Euro", "Die Miete des Ateliers beträgt 1.020 Euro",
         "Wie hoch war die Miete des Ateliers früher?"),
        ("L'imprimante est au premier étage", "L'imprimante est au sous-sol", "Où était l'imprimante avant ?"),
        ("会議室の鍵は田中さんにある", "会議室の鍵は山本さんにある", "以前の会議室の鍵"),
    ],
)  # fmt: skip
async def test_what_was_is_asked_for_in_other_languages_too(agent: Agent, was: str, now: str, asked: str) -> None:
    old, new = await agent.store(was), await agent.store(now)
    await supersede(agent, old, new)
    for query in (now, f"Wann muss ich früher zur Frage: {now}", f"der nächste frühere Zug: {now}"):
        assert (await agent.call("search_memories", query=query)).get("notice") is None
    assert f"{new['id']} replaced" in (await agent.call("search_memories", query=asked))["notice"]
