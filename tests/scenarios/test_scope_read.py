"""What a principal without the scope read gets to see of others' words: nothing, whichever tool it calls."""

import json
from typing import Any

import pytest

from engramq.gateway.replies import NOTICE_WITHHELD as NOTICE
from engramq.schemas.vocabulary import Scope
from tests.scenarios.stage import LEGACY, MODERN, Agent, Stage, agent_of

pytestmark = pytest.mark.promise("SE-17")

# Every word of the reader's that no reply may repeat.
MARK = "heliotrope"
OTHERS: dict[str, Any] = {
    "metadata": {f"{MARK}-key": f"{MARK} value"},
    "tags": [f"{MARK}-tag"],
    "speaker": f"{MARK} speaker",
    "thread": f"{MARK}-thread",
}


def quiet(body: dict[str, Any]) -> dict[str, Any]:
    """Return a reply after proving that it says nothing of what the reader wrote, and that it says so."""
    assert MARK not in json.dumps(body), body
    assert body["notice"].endswith(NOTICE), body
    return body


async def stored(agent: Agent, content: str, **more: Any) -> str:
    memory_id: str = (await agent.store(f"{content} {MARK}", **more))["id"]
    return memory_id


@pytest.mark.parametrize("detail", ["brief", "full"])
@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_replies_to_writes_hold_ids_without_contents(stage: Stage, era: str, detail: str) -> None:
    service = await stage.gateway()
    writes = (Scope.WRITE, Scope.VERIFY, Scope.ADMIN)
    async with (
        agent_of(service, principal="reader", era=era) as reader,
        agent_of(service, principal="writer", era=era, scopes=writes) as writer,
    ):
        first = await stored(reader, "Ada drinks green tea in the morning", **OTHERS)
        second = await stored(reader, "Ada drinks black tea in the evening", **OTHERS)
        apart = await stored(reader, "A page about tea", partition="untrusted", **OTHERS)

        for dry_run in (True, False):
            found = await writer.call(
                "connect_by_query",
                source_query="Ada drinks green tea in the morning",
                target_query="Ada drinks black tea in the evening",
                min_confidence=0.0001,
                dry_run=dry_run,
            )
            assert {quiet(found)["source_id"], found["target_id"]} == {first, second}
            assert (found["source_content"], found["target_content"]) == (None, None)

        body = await writer.call("store_memory", content="Ada drinks green tea in the morning", detail=detail)
        similar = quiet(body)["similar_memories"]
        assert {first, second} <= {item["id"] for item in similar}
        assert {item["preview"] for item in similar} == {None}

        changed = quiet(await writer.call("update_memory", memory_id=first, confidence=0.5, detail=detail))["memory"]
        assert (changed["id"], changed["confidence"], "content" in changed) == (first, 0.5, False)
        assert set(changed["omitted_fields"]) >= {"tags", "speaker", "thread"}
        own = await writer.call("update_memory", memory_id=first, speaker="the writer", detail=detail)
        assert quiet(own)["memory"]["speaker"] == "the writer"

        replaced = quiet(
            await writer.call("supersede_memory", old_memory_id=first, new_memory_id=second, detail=detail)
        )
        assert (replaced["old"]["id"], replaced["new"]["id"]) == (first, second)
        hidden = await writer.call("forget_memory", memory_id=second)  # workers read no previews for who may not
        assert hidden["still_hidden"] == [{"id": first, "preview": None}]
        back = quiet(await writer.call("restore_memory", memory_id=second, detail=detail))
        assert (back["status"], back["memory"]["id"]) == ("restored", second)

        await writer.call("verify_memory", memory_id=apart, verification="verified")
        promoted = quiet(await writer.call("memory_promote_to_trusted", record_id=apart, detail=detail))
        assert (promoted["status"], promoted["memory"]["id"]) == ("promoted", apart)

        # Who may read is answered as ever.
        whole = await reader.call("update_memory", memory_id=first, confidence=0.6, detail="full")
        assert MARK in whole["memory"]["content"]
        assert "notice" not in whole


async def test_of_links_and_the_graph_only_the_callers_own_words_come_back(stage: Stage) -> None:
    service = await stage.gateway()
    async with (
        agent_of(service, principal="reader") as reader,
        agent_of(service, principal="writer", scopes=(Scope.WRITE,)) as writer,
    ):
        source, target = await stored(reader, "Tea"), await stored(reader, "Cups")
        await reader.call("connect", source=source, target=target, note=f"{MARK} note")
        again = quiet(await writer.call("connect", source=source, target=target))
        assert (again["action"], again["note"]) == ("reinforced", None)
        batch = quiet(await writer.call("connects", edges=[{"source": source, "target": target, "if_exists": "skip"}]))
        assert batch["results"][0]["note"] is None
        mine = await writer.call("connect", source=source, target=target, note="mine", if_exists="update")
        assert (mine["note"], "notice" in mine) == ("mine", False)

        await reader.call("graph_add_node", name="Ada", properties={"secret": MARK})
        node = quiet(await writer.call("graph_add_node", name="Ada", properties={"likes": "tea"}))
        assert node["properties"] == {"likes": "tea"}
        await reader.call(
            "graph_add_edge", source_name="Ada", target_name="Tea", relation="LIKES", properties={MARK: 1}
        )
        edge = quiet(await writer.call("graph_add_edge", source_name="Ada", target_name="Tea", relation="LIKES"))
        assert edge["properties"] == {}


async def test_a_reference_stands_for_an_id_alone(stage: Stage) -> None:
    service = await stage.gateway()
    async with (
        agent_of(service, principal="ada", session="shared") as reader,
        agent_of(service, principal="ada", session="shared", scopes=(Scope.WRITE,)) as writer,
    ):
        memory_id = await stored(reader, "What the session stored")
        for told in (
            await writer.call("update_memory", memory_id="@stored", confidence=0.4),
            await writer.call("connect", source="@stored", target=memory_id),
        ):
            assert MARK not in json.dumps(told)
            assert told["resolved_references"]["@stored"] == {"id": memory_id}
