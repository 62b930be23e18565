"""A working session of an agent, from first search to outcome, as the guide describes it."""

import pytest

from tests.scenarios.stage import LEGACY, MODERN, Agent, Stage, agent_of

REASON = "We chose Redis for the queue because latency matters most"
FIGURE = "Measured on Tuesday: half a millisecond there and back"
QUESTION = "Why was Redis chosen for the queue?"
SUPPORTS = 0.75


@pytest.mark.promise("CN-39", "CN-40", "CN-41", "CN-42", "CN-44")
@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_an_agent_works_with_references_from_search_to_outcome(stage: Stage, era: str) -> None:
    async with agent_of(await stage.gateway(), era=era) as agent:
        here = {"session": "the queue"}
        begun = await agent.call("begin_session", **here)
        reason = await agent.store(REASON, **here)
        assert [hit["id"] for hit in await agent.search(QUESTION, **here)] == [reason["id"]]
        figure = await agent.store(FIGURE, **here)

        linked = await agent.call(
            "connect", source="@stored", target="@recalled[0]", relation="supports", note="the figure", **here
        )
        assert (linked["status"], linked["action"]) == ("success", "created")
        assert (linked["source_id"], linked["target_id"]) == (figure["id"], reason["id"])
        outcome = await agent.call("record_outcome", memory_ids=["@recalled[0]", "@stored"], signal=0.9, **here)
        assert [item["memory_id"] for item in outcome["updated"]] == [reason["id"], figure["id"]]
        assert (outcome["edges_created"], outcome["edges_reinforced"], outcome["skipped"]) == (0, 1, [])

        found = await agent.search(QUESTION, **here)
        assert found[0]["id"] == reason["id"]
        assert found[0]["usefulness"] == outcome["updated"][0]["usefulness"] > reason["usefulness"]
        shown = await agent.call("get_memory", memory_id="@recalled[0]", **here)
        (link,) = [link for link in shown["links"] if link["memory_id"] == figure["id"]]
        assert (link["relation"], link["direction"], link["note"]) == ("supports", "incoming", "the figure")
        assert link["preview"] == FIGURE
        assert (link["origin"], link["weight"]) == ("agent", pytest.approx(SUPPORTS + 0.9 * 0.1))

        session_state = await agent.call("get_breadcrumbs", **here)
        assert (session_state["last_stored_id"], session_state["last_recalled_ids"][0]) == (figure["id"], reason["id"])
        assert session_state["session_memory_ids"] == [reason["id"], figure["id"]]
        await starts_afresh(agent, begun["instance"], reason["id"])


async def starts_afresh(agent: Agent, instance: int, known: str) -> None:
    """Prove that a new instance of the session has forgotten its references, and none of its memories."""
    assert (await agent.call("begin_session", session="the queue"))["instance"] > instance
    refused = await agent.call("connect", source="@stored", target=known, session="the queue")
    assert (refused["status"], refused["field"]) == ("invalid_parameter", "source")
    assert (await agent.search(QUESTION, session="the queue"))[0]["id"] == known


@pytest.mark.promise("CN-43", "CN-44")
async def test_references_hold_at_another_gateway_and_for_their_principal_alone(stage: Stage) -> None:
    async with agent_of(await stage.gateway()) as first:
        reason = await first.store(REASON)
        await first.search(QUESTION)
        figure = await first.store(FIGURE)
    another = await stage.gateway()
    async with agent_of(another) as same, agent_of(another, principal="somebody else") as other:
        batch = await same.call(
            "connects", edges=[{"source": "@stored", "target": "@recalled[0]"}, {"source": "@stored"}]
        )
        assert [(result["source_id"], result["target_id"]) for result in batch["results"]] == [
            (figure["id"], reason["id"])
        ]
        assert [(error["index"], error["field"]) for error in batch["errors"]] == [(1, "target")]
        refused = await other.call("connects", edges=[{"source": "@stored", "target": "@recalled[0]"}])
        assert [(error["index"], error["field"]) for error in refused["errors"]] == [(0, "source")]
        whole = await other.call("connects", edges=[{"source": "@stored", "target": reason["id"]}], atomic=True)
        assert (whole["status"], whole["field"]) == ("invalid_parameter", "source")


async def test_what_a_refusal_tells_to_do_works(stage: Stage) -> None:
    async with agent_of(await stage.gateway()) as agent:
        pair = {"source": (await agent.store(REASON))["id"], "target": (await agent.store(FIGURE))["id"]}
        await agent.call("connect", **pair, relation="supports")
        conflict = await agent.call("connect", **pair, relation="contradicts")
        assert (conflict["code"], 'if_exists="update"' in conflict["recovery"]) == ("relation_conflict", True)
        updated = await agent.call("connect", **pair, relation="contradicts", if_exists="update")
        assert (updated["action"], updated["relation"]) == ("updated", "contradicts")
        misheard = await agent.call("guide", topic="conect")
        assert "connect" in misheard["topics"]
