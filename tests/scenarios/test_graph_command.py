"""`engramq graph` as operators call it."""

import json
from typing import Any

import pytest

from engramq.deploy.cli import tool_client
from engramq.gateway import operator
from tests.scenarios.stage import Agent, Stage, agent_of
from tests.terminal import Terminal, terminal

__all__ = ["terminal"]


NASTY = "Bob \u200b"


async def written(agent: Agent, target: str = "Bob") -> dict[str, Any]:
    return await agent.call("graph_add_edge", source_name="Ada", target_name=target, relation="KNOWS")


async def test_what_an_agent_deletes_is_listed_and_restored(agent: Agent, terminal: Terminal) -> None:
    edge = await written(agent, NASTY)
    asked = {"source_name": "Ada", "target_name": NASTY, "relation": "KNOWS"}
    before = await agent.call("get_edge", **asked)
    deleted = await agent.call("graph_delete_edge", edge_id=edge["edge_id"], reason="untrue")
    assert (await agent.call("get_edge", **asked))["edge"] is None
    (entry,) = (await agent.call("audit", target=edge["edge_id"]))["entries"]
    assert entry["id"] == deleted["audit_id"]
    assert f"entry {entry['id']}" in (await terminal("audit"))[1]

    code, out, _ = await terminal("graph", "deleted")
    assert (code, out.split()[0]) == (0, str(entry["id"]))
    assert "Ada (Entity) --KNOWS--> Bob" in out
    assert deleted["restore_until"] in out
    assert not {"\x1b", "\u200b"} & set(out)
    (line,) = (await terminal("graph", "deleted", "--json"))[1].splitlines()
    assert json.loads(line)["edge_id"] == edge["edge_id"]

    words = deleted["hint"].split("`")[1].split()
    code, out, err = await terminal(*words[1:], "--reason", "true after all")
    assert (code, out, err) == (0, f"Restored edge {edge['edge_id']}\n", "")
    assert await agent.call("get_edge", **asked) == before
    assert (await agent.call("audit", target=edge["edge_id"]))["entries"][0]["reason"] == "true after all"
    code, out, err = await terminal(*words[1:])
    assert (code, out) == (0, "")
    assert "restored already" in err
    code, out, err = await terminal("graph", "deleted")
    assert (code, out) == (0, "")
    assert "nothing that can be restored" in err


async def test_another_namespace_is_named(stage: Stage, agent: Agent, terminal: Terminal) -> None:
    async with agent_of(await stage.gateway(), namespace="Ada's") as other:
        edge = await written(other)
        deleted = await other.call("graph_delete_node", node_id=edge["source_id"])
        (code, _, err) = await terminal("graph", "restore", str(deleted["audit_id"]))
        assert (code, "is no deletion" in err) == (1, True)
        assert f"graph restore {deleted['audit_id']} --namespace" in deleted["hint"]
        code, out, _ = await terminal("graph", "restore", str(deleted["audit_id"]), "--namespace", "Ada's", "--json")
        assert code == 0
        body = json.loads(out)
        assert (body["status"], body["node_id"], body["edges_restored"]) == ("restored", edge["source_id"], 1)
        listed = await other.call("graph_list_edges", node_name="Ada")
        assert [item["edge_id"] for item in listed["edges"]] == [edge["edge_id"]]


async def test_what_cannot_be_restored_says_what_to_do_first(agent: Agent, terminal: Terminal) -> None:
    edge = await written(agent)
    first = (await agent.call("graph_delete_edge", edge_id=edge["edge_id"]))["audit_id"]
    second = (await agent.call("graph_delete_node", node_id=edge["target_id"]))["audit_id"]
    code, out, err = await terminal("graph", "restore", str(first))
    assert (code, out) == (1, "")
    assert f"first engramq graph restore {second}, then this again" in err
    for audit_id in (second, first):
        assert (await terminal("graph", "restore", str(audit_id)))[0] == 0


async def test_a_restoration_that_takes_long_is_asked_after(
    agent: Agent, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge = await written(agent)
    deleted = await agent.call("graph_delete_node", node_id=edge["source_id"])
    monkeypatch.setattr(operator, "WRITE_S", 0.003)
    monkeypatch.setattr(tool_client, "ASK_AGAIN_S", 0.05)
    code, out, err = await terminal("graph", "restore", str(deleted["audit_id"]))
    assert (code, out, err) == (0, f"Restored node {edge['source_id']} with 1 edge\n", "")
