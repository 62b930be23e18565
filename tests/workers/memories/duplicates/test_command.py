"""`engramq duplicates` as operators call it, over a whole pipeline."""

import json
from typing import Any

import pytest

from engramq.deploy.cli.tool_client import ToolClient
from engramq.schemas import limits
from engramq.schemas.faults import FaultCode, refuse
from tests.scenarios.stage import Agent, Stage, agent_of
from tests.terminal import Terminal
from tests.workers.memories.trust.test_command_lines import answering

TEA = "Anna prefers green tea in the long mornings of winter"


async def duplicates(terminal: Terminal, *arguments: str) -> dict[str, Any]:
    code, out, err = await terminal("duplicates", "--json", *arguments)
    assert (code, err) == (0, "")
    body: dict[str, Any] = json.loads(out)
    return body


def named(body: dict[str, Any]) -> dict[str, list[str]]:
    """Return the ids that go by the id that stays."""
    return {group["stays"]["id"]: [goe["id"] for goe in group["goes"]] for group in body["groups"]}


async def test_duplicates_are_listed_first_and_superseded_when_told_to(terminal: Terminal, agent: Agent) -> None:
    first = await agent.store(TEA)
    again = await agent.store(f"  {TEA.replace(' ', '  ')} ")
    last = await agent.store(f"{TEA}!")
    apart = f"{TEA}, it is"
    await agent.store(apart)
    await agent.store("The nightly backup runs on the second server")
    code, out, err = await terminal("duplicates")
    lines = out.splitlines()
    assert (code, len(lines)) == (0, 3)
    assert lines[0] == f"{last['id']}  stays  {TEA}!"
    assert {line.split()[0] for line in lines[1:]} == {first["id"], again["id"]}
    assert "2 memories in 1 group of namespace 'default_user' can be superseded" in err
    assert "Nothing is superseded: --merge --yes does it." in err
    assert "Nothing is merged: --yes does it." in (await terminal("duplicates", "--merge"))[2]
    assert len(await agent.recent()) == 5
    code, out, err = await terminal("duplicates", "--merge", "--yes")
    assert (code, err) == (0, "")
    assert "Superseded 2 memories" in out
    assert sorted(await agent.recent()) == sorted([f"{TEA}!", apart, "The nightly backup runs on the second server"])
    entries = await terminal.entries(*out.splitlines()[-1].split()[2:])
    assert {entry["target_id"] for entry in entries} == {first["id"], again["id"]}
    assert {(entry["action"], entry["reason"], entry["new"]["superseded_by"]) for entry in entries} == {
        ("supersede", "near-duplicate", last["id"])
    }
    stays = await agent.call("get_memory", memory_id=last["id"])
    assert {replace["id"] for replace in stays["replaces"]} == {first["id"], again["id"]}
    nothing = await duplicates(terminal, "--merge", "--yes")
    assert (nothing["group_count"], nothing["merged"]) == (0, 0)


async def test_a_merge_asks_who_sits_at_a_terminal(
    terminal: Terminal, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for content in (TEA, f"{TEA}!"):
        await agent.store(content)
    answering(monkeypatch, "n")
    code, _, err = await terminal("duplicates", "--merge")
    assert (code != 0, len(await agent.recent())) == (True, 2)
    assert "Supersede 1 memory in 1 group of namespace 'default_user'?" in err
    answering(monkeypatch, "y")
    assert (await terminal("duplicates", "--merge"))[0] == 0
    assert await agent.recent() == [f"{TEA}!"]


async def test_where_there_are_none_nothing_is_said_of_merging(terminal: Terminal, agent: Agent) -> None:
    await agent.store(TEA)
    for more in ((), ("--merge",), ("--merge", "--yes")):
        code, out, err = await terminal("duplicates", "--similarity", "0.9", *more)
        assert (code, out, err) == (0, "", "No duplicates in namespace 'default_user', by a similarity of 0.900.\n")


async def test_what_was_merged_comes_back_as_it_was(terminal: Terminal, agent: Agent) -> None:
    old, new = await agent.store(TEA), await agent.store(f"{TEA}!")
    body = await duplicates(terminal, "--merge", "--yes")
    assert (named(body), body["merged"], body["left"]) == ({new["id"]: [old["id"]]}, 1, [])
    hidden = (await agent.call("get_memory", memory_id=old["id"]))["memory"]
    assert (hidden["superseded_by"], hidden["valid_until"]) == (new["id"], new["created_at"])
    back = (await agent.call("restore_memory", memory_id=old["id"]))["memory"]
    same = set(old) - {"updated_at", "sector", "sector_source", "sector_confidence", "score"}
    assert {name: back[name] for name in same & set(back)} == {name: old[name] for name in same & set(back)}
    assert len(await agent.recent()) == 2


async def test_a_namespace_and_a_partition_can_be_chosen(terminal: Terminal, agent: Agent, stage: Stage) -> None:
    async with agent_of(await stage.gateway(), namespace="acme") as theirs:
        apart = [(await theirs.store(TEA, source_type="research"))["id"] for _ in range(2)]
        own = [(await theirs.store(TEA))["id"] for _ in range(2)]
        assert (await duplicates(terminal))["looked_at"] == 0
        both = named(await duplicates(terminal, "--namespace", "acme"))
        assert both == {apart[1]: [apart[0]], own[1]: [own[0]]}
        untrusted = await duplicates(terminal, "--namespace", "acme", "--partition", "untrusted")
        assert named(untrusted) == {apart[1]: [apart[0]]}
        assert untrusted["groups"][0]["stays"]["preview"] == TEA
        body = await duplicates(terminal, "--namespace", "acme", "--partition", "trusted", "--merge", "--yes")
        assert (named(body), body["merged"]) == ({own[1]: [own[0]]}, 1)
        assert await theirs.recent() == [TEA]
        assert await theirs.recent(partitions=["untrusted"]) == [TEA, TEA]


async def test_only_so_many_groups_are_listed_and_all_are_merged(terminal: Terminal, agent: Agent) -> None:
    things = ["copper kettle", "walnut cabinet", "linen curtain"]
    for _ in range(2):
        for thing in things:
            await agent.store(f"There is a {thing} to be sold by auction")
    code, out, err = await terminal("duplicates", "--limit", "1")
    assert (code, len(out.splitlines())) == (0, 3)
    assert out.splitlines()[-1] == "... and 2 groups more: --limit shows them"
    assert "3 memories in 3 groups" in err
    body = await duplicates(terminal, "--limit", "0", "--merge", "--yes")
    assert (body["groups"], body["group_count"], body["merged"]) == ([], 3, 3)
    assert len(await agent.recent()) == 3


async def test_how_near_they_have_to_be_can_be_said(terminal: Terminal, agent: Agent) -> None:
    """However little is asked for, other words are no duplicates."""
    await agent.store("The printer on the third floor jams with thick paper when it rains outside")
    await agent.store("The printer on the third floor jams with thick paper")
    last = await agent.store("Printer on third floor jams with thick paper.")
    found = await duplicates(terminal, "--similarity", "0.6")
    assert (found["similarity"], found["group_count"], found["duplicate_count"]) == (0.6, 1, 1)
    assert found["groups"][0]["stays"]["id"] == last["id"]
    assert 0.6 <= found["groups"][0]["goes"][0]["similarity"] <= 1.0


async def test_what_is_shown_cannot_write_to_the_terminal(terminal: Terminal, agent: Agent) -> None:
    for _ in range(2):
        await agent.store("The poisoned page says \x1b]0;owned\x07 to every terminal")
    _, out, _ = await terminal("duplicates")
    assert "\\u001b]0;owned\\u0007" in out
    assert "\x1b" not in out


async def test_no_tool_finds_or_merges_in_bulk(agent: Agent) -> None:
    names = {tool.name for tool in (await agent.client.list_tools()).tools}
    assert not [name for name in names if "duplicate" in name]


async def test_a_set_too_large_for_one_step_is_merged_piece_by_piece(
    terminal: Terminal, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DUPLICATES_COMPARED", 3)
    monkeypatch.setattr(limits, "DUPLICATES_MERGED", 2)
    ids = [(await agent.store(TEA))["id"] for _ in range(8)]
    body = await duplicates(terminal, "--merge", "--yes")
    assert (body["duplicate_count"], body["merged"], body["left"]) == (7, 7, [])
    (left,) = (await agent.call("list_recent_memories"))["memories"]
    assert left["id"] == ids[-1]
    stale = await agent.call("connect", source=ids[0], target=(await agent.store("Something else entirely"))["id"])
    assert ids[-1] in stale["recovery"]  # whoever has an old id is led to the one that stayed
    assert (await duplicates(terminal))["group_count"] == 0


async def test_a_merge_that_was_stopped_goes_on_where_it_was(
    terminal: Terminal, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DUPLICATES_MERGED", 2)
    for _ in range(6):
        await agent.store(TEA)
    write, calls = ToolClient.write, 0

    def stopped(self: ToolClient, *given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise refuse(FaultCode.UNAVAILABLE, "The queue went away.")
        return write(self, *given, **named)

    monkeypatch.setattr(ToolClient, "write", stopped)
    code, _, err = await terminal("duplicates", "--merge", "--yes")
    assert code == 3
    assert "The queue went away." in err
    assert "The same command again does what is left." in err
    assert len(await agent.recent()) == 4
    body = await duplicates(terminal, "--merge", "--yes")
    assert (body["duplicate_count"], body["merged"]) == (3, 3)
    assert await agent.recent() == [TEA]
