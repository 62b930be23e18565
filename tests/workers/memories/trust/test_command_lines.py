"""`engramq purge` and `engramq audit` as operators call them."""

import asyncio
import io
import json
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import psycopg
import pytest

from engramq.deploy.cli import purge as purge_command
from engramq.deploy.cli import tool_client
from engramq.gateway import operator
from engramq.schemas.command_line import ExitCode
from engramq.workers.memories import purge as purging
from tests.conftest import Database
from tests.scenarios.stage import Agent, Stage, agent_of
from tests.terminal import Terminal, terminal

__all__ = ["terminal"]

BOUND_S = 20.0


async def test_purging_lists_first_and_erases_when_told_to(terminal: Terminal, agent: Agent, stage: Stage) -> None:
    async with agent_of(await stage.gateway(), principal="crawler") as crawler:
        ids = [(await crawler.store(f"Crawled page {number}"))["id"] for number in range(3)]
    await agent.store("Our own page")
    code, out, err = await terminal("purge", "--created-by", "crawler")
    assert (code, out.splitlines()) == (0, [f"{item}  Crawled page {number}" for number, item in enumerate(ids)])
    assert "3 memories" in err
    assert "--yes" in err
    assert len(await agent.recent()) == 4
    code, out, _ = await terminal("purge", "--created-by", "crawler", "--yes", "--reason", "poisoned")
    assert code == 0
    assert "Erased 3" in out
    assert await agent.recent() == ["Our own page"]
    command_id = out.split()[-1]
    entries = await terminal.entries("--command", command_id)
    assert [entry["action"] for entry in entries] == ["erase"] * 3 + ["purge"]
    assert {entry["reason"] for entry in entries} == {"poisoned"}
    code, out, _ = await terminal("purge", "--created-by", "crawler", "--yes", "--json")
    assert (code, json.loads(out)["matched"]) == (0, 0)


def answering(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    """Let somebody sit at the terminal who answers so."""
    monkeypatch.setattr("engramq.deploy.cli.options.can_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))


async def test_a_purge_asks_who_sits_at_a_terminal_with_how_many_of_each_project(
    terminal: Terminal, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding N1 of newcomers: what takes many says how many and of which projects, and asks."""
    for number, project in enumerate(("shop", "shop", "bakery")):
        await agent.store(f"Page {number} of the wiki", project=project, thread="wiki")
    answering(monkeypatch, "n")
    code, _, err = await terminal("purge", "--thread", "wiki")
    assert (code != 0, len(await agent.recent(project="*"))) == (True, 3)
    assert "Erase for good: 3 memories (2 of project shop and 1 of project bakery)?" in err
    answering(monkeypatch, "y")
    code, out, _ = await terminal("purge", "--thread", "wiki")
    assert (code, "Erased 3 memories" in out) == (0, True)
    assert await agent.recent(project="*") == []


class Interrupted(io.StringIO):
    """Somebody at a terminal, while whose first answer is awaited something happens."""

    def __init__(self, answers: str, happens: Callable[[], Coroutine[Any, Any, object]]) -> None:
        super().__init__(answers)
        self._happens, self._loop = [happens], asyncio.get_running_loop()

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]  # as of StringIO itself
        while self._happens:
            asyncio.run_coroutine_threadsafe(self._happens.pop()(), self._loop).result(60)
        return super().readline(size)


async def test_a_purge_asks_again_where_more_has_come_since_it_asked(
    terminal: Terminal, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await agent.store("Page 0 of the wiki", thread="wiki")
    answering(monkeypatch, "")
    late = partial(agent.store, "Page 1 of the wiki", thread="wiki")
    monkeypatch.setattr("sys.stdin", Interrupted("y\nn\n", late))
    code, out, err = await terminal("purge", "--thread", "wiki")
    assert (code != 0, "Erased" in out, len(await agent.recent())) == (True, False, 2)
    assert "Erase for good: 1 memory" in err
    assert "Erase for good: 2 memories" in err


async def test_archiving_hides_what_a_filter_names_until_it_is_restored(
    terminal: Terminal, agent: Agent, stage: Stage
) -> None:
    async with agent_of(await stage.gateway(), principal="crawler") as crawler:
        memory = await crawler.store("A crawled page")
        await crawler.call("graph_add_edge", source_name="Ada", target_name="Bob", relation="KNOWS")
    code, out, err = await terminal("purge", "--created-by", "crawler", "--archive")
    assert (code, out.splitlines()[0]) == (0, f"{memory['id']}  A crawled page")
    assert "Ada --KNOWS--> Bob" in out
    assert "1 memory, 2 nodes, 1 edge of namespace" in err
    assert "Nothing is archived: --yes does it." in err
    code, out, err = await terminal("purge", "--created-by", "crawler", "--archive", "--yes", "--reason", "odd")
    assert (code, err) == (0, "")
    assert "Archived 1 memory, 2 nodes, 1 edge" in out
    assert "engramq restore brings a memory back" in out
    assert await agent.recent() == []
    entries = await terminal.entries("--target", memory["id"])
    assert [(entry["action"], entry["reason"]) for entry in entries] == [("archive", "odd")]
    edge = {"source_name": "Ada", "target_name": "Bob", "relation": "KNOWS"}
    assert (await agent.call("get_edge", **edge))["status"] == "not_found"
    listing = out.splitlines()[-1].split()
    code, out, _ = await terminal(*listing[1:], "--json")
    deletions = sorted(map(json.loads, out.splitlines()), key=lambda line: line["node_id"] is None)
    assert (code, len(deletions)) == (0, 3)
    for deletion in deletions:
        assert (await terminal("graph", "restore", str(deletion["audit_id"])))[0] == 0
    assert (await agent.call("get_edge", **edge))["status"] == "success"
    await agent.call("restore_memory", memory_id=memory["id"])
    assert await agent.recent() == ["A crawled page"]


async def test_a_purge_counts_what_it_takes_of_proposals_and_deletions(
    terminal: Terminal, agent: Agent, stage: Stage
) -> None:
    known = {"source_name": "Ada", "target_name": "Bob", "relation": "KNOWS"}
    async with agent_of(await stage.gateway(), principal="crawler") as crawler:
        edge = await crawler.call("graph_add_edge", **known)
        deleted = await crawler.call("graph_delete_edge", edge_id=edge["edge_id"])
        await crawler.call("graph_add_edge", **known, properties={"is_constitutive": True})
        await crawler.call("graph_add_edge", **known, weight=0.1)
    code, _, err = await terminal("purge", "--created-by", "crawler")
    assert code == 0
    counted = "0 memories, 2 nodes, 1 edge (1 of them constitutive), 1 deleted node or edge that was kept, 1 proposal"
    assert counted in err
    code, out, _ = await terminal("purge", "--created-by", "crawler", "--yes")
    assert (code, f"Erased {counted}" in out) == (0, True)
    code, out, err = await terminal("graph", "restore", str(deleted["audit_id"]))
    assert (code, out) == (1, "")
    assert "a purge has erased" in err
    await agent.call("graph_add_edge", **known)
    assert (await terminal("purge", "--created-by", "I/O", "--archive", "--yes"))[0] == 0
    code, out, _ = await terminal("purge", "--created-by", "I/O", "--yes")  # nothing else is left of it
    assert (code, "Erased 0 memories, 3 deleted nodes and edges that were kept" in out) == (0, True)


async def test_a_namespace_is_shown_first_and_deleted_when_told_to(
    terminal: Terminal, agent: Agent, stage: Stage
) -> None:
    async with agent_of(await stage.gateway(), namespace="acme") as theirs:
        await theirs.store("Their page")
        await agent.store("Our page")
        code, out, err = await terminal("tenant", "delete", "acme")
        assert (code, out) == (0, "1 memory, 0 nodes, 0 edges, 0 links, 0 tokens; 10 bytes of contents.\n")
        assert "Nothing is deleted: --yes does it." in err
        assert await theirs.recent() == ["Their page"]
        code, out, _ = await terminal("tenant", "delete", "acme", "--yes", "--reason", "over")
        assert code == 0
        assert "Deleted 1 memory" in out
        assert (await theirs.recent(), await agent.recent()) == ([], ["Our page"])
        entries = await terminal.entries("--namespace", "acme", "--command", out.split()[-1])
        assert {(entry["action"], entry["reason"]) for entry in entries} == {("delete_tenant", "over")}
        code, out, _ = await terminal("tenant", "delete", "acme", "--yes", "--json")
        assert (code, json.loads(out)["memory_count"]) == (0, 0)
    code, out, err = await terminal("tenant", "delete", "nobody", "--yes")
    assert (code, out) == (1, "")
    assert "There is no namespace 'nobody'" in err


@pytest.mark.long
async def test_a_purge_that_takes_long_is_asked_after_and_tells_how_far_it_is(
    terminal: Terminal, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        await agent.store(f"Page {number}", thread="pages")
    monkeypatch.setattr(operator, "WRITE_S", 0.5)
    monkeypatch.setattr(tool_client, "PROGRESS_S", 0.0)
    monkeypatch.setattr("engramq.workers.memories.purge.ERASED_AT_ONCE", 1)
    told = threading.Event()
    tell, erase = purge_command._tell_progress, purging.erase_matching

    def telling(*arguments: Any) -> None:
        tell(*arguments)
        told.set()

    async def waiting(*arguments: Any) -> None:
        await erase(*arguments)
        assert await asyncio.to_thread(told.wait, BOUND_S)

    monkeypatch.setattr(purge_command, "_tell_progress", telling)
    monkeypatch.setattr(purging, "erase_matching", waiting)
    code, out, err = await terminal("purge", "--thread", "pages", "--yes")
    assert code == 0, err
    assert "Erased 20" in out
    assert "of 20 done" in err
    assert await agent.recent() == []


async def test_the_audit_log_is_shown_newest_last(terminal: Terminal, agent: Agent) -> None:
    memory = await agent.store("A page", source_type="research")
    nasty = "line\nbreak \x1b[31m \u202e end"
    await agent.call("verify_memory", memory_id=memory["id"], verification="verified", reason=nasty)
    await agent.call("memory_promote_to_trusted", record_id=memory["id"])
    code, out, _ = await terminal("audit")
    verified, promoted = out.splitlines()
    assert code == 0
    assert f'verify        {memory["id"]}  by "I/O"  verification unverified -> verified' in verified
    assert "\\n" in verified
    assert not {"\x1b", "\u202e"} & set(out)
    assert "partition untrusted -> trusted" in promoted
    for arguments, expected in (
        (("--action", "promote"), ["promote"]),
        (("--actor", "nobody"), []),
        (("--target", memory["id"]), ["verify", "promote"]),
        (("--limit", "1"), ["promote"]),
        (("--since", "2999-01-01"), []),
        (("--until", "2020-01-01"), []),
        (("--namespace", "elsewhere"), []),
    ):
        assert [entry["action"] for entry in await terminal.entries(*arguments)] == expected, arguments
    (entry,) = await terminal.entries("--action", "verify")
    assert entry["reason"] == nasty
    assert "A page" not in str(await terminal.entries())


@pytest.mark.promise("SE-10")
async def test_what_is_in_the_audit_log_stays(terminal: Terminal, agent: Agent, database: Database) -> None:
    memory = await agent.store("A page", source_type="research")
    await agent.call("verify_memory", memory_id=memory["id"], verification="verified")
    before = await terminal.entries()
    async with await psycopg.AsyncConnection.connect(database.url, autocommit=True) as worker:
        await worker.execute("select set_config('app.tenant', make_tenant('default_user')::text, false)")
        for statement in (
            b"update audit_log set actor = 'nobody', reason = null",
            b"delete from audit_log",
            b"truncate audit_log",
            b"alter table audit_log add column mine text",
            b"drop table audit_log",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await worker.execute(statement)
    await agent.call("forget_memory", memory_id=memory["id"], erase=True)
    after = await terminal.entries()
    assert after[: len(before)] == before
    assert after[-1]["action"] == "erase"


async def test_what_a_principal_changed_of_others_is_named_and_set_back(terminal: Terminal, stage: Stage) -> None:
    knows = {"source_name": "Ada", "target_name": "Bob", "relation": "KNOWS"}
    async with agent_of(await stage.gateway(), principal="ada") as ada:
        await ada.call("graph_add_edge", **knows)
        held = await ada.call("graph_add_edge", **knows | {"target_name": "Held"})
    async with agent_of(await stage.gateway(), principal="crawler") as crawler:
        await crawler.call("graph_add_edge", **knows, weight=0.1)
        await crawler.call("graph_add_node", name="Own", properties={"p": "swordfish"})
        await crawler.call("graph_add_node", name="Held", properties={"p": "swordfish"})
    async with agent_of(await stage.gateway(), principal="ada") as ada:
        await ada.call("graph_add_edge", **knows | {"target_name": "Own"})
    code, out, err = await terminal("purge", "--created-by", "crawler")
    assert code == 0
    assert "hang on 1 node of this principal. So these stay, without the properties that they have from it:" in out
    assert "This principal changed 1 edge and 1 node of others, which stay:" in out
    assert held["target_id"] in out
    assert "--actor crawler" in out
    assert "0 memories, properties of 1 node of namespace" in err
    code, out, _ = await terminal("purge", "--created-by", "crawler", "--restore-replaced", "--yes")
    assert code == 0
    assert "Set 2 nodes and edges of others back" in out
    assert "This principal changed" not in out
    async with agent_of(await stage.gateway(), principal="ada") as ada:
        assert (await ada.call("get_edge", **knows))["weight"] == 1.0
        for name in ("Own", "Held"):
            assert (await ada.call("get_node_by_name", name=name))["properties"] == {}


async def test_a_purge_that_finds_nothing_asks_for_no_yes_that_was_given(agent: Agent, terminal: Terminal) -> None:
    await agent.store("kept")
    code, out, err = await terminal("purge", "--created-by", "nobody", "--yes")
    assert (code, out) == (ExitCode.DONE, "")
    assert err.startswith("0 memories of namespace")
    assert "There is nothing to do." in err
    assert "--yes does it" not in err
