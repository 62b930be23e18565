"""Operators' commands at a gateway elsewhere, by a token: what they do, for whom, and in which namespace."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.cli import tool_client
from engramq.deploy.cli.tool_client import ToolClient
from engramq.schemas.command_line import ExitCode
from engramq.schemas.commands import OPERATOR_TOOLS, TOOLS, AuditList, ListAudit, Purged, PurgeMemories
from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES
from engramq.workers.auth.tokens import NewToken
from tests.deploy.cli.test_tool_commands import Shell, here, shell
from tests.gateway.conftest import keys, redis_url
from tests.gateway.test_http import ERAS
from tests.gateway.test_identity_end_to_end import Served, served, settings

__all__ = ["here", "keys", "redis_url", "settings", "shell"]

pytestmark = pytest.mark.timeout(120)

SENTENCE = "The ferry to the island leaves every morning at seven from the old harbour of the town"


def entries(lines: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines()]


async def test_who_did_what_is_shown_page_by_page(shell: Shell) -> None:
    ids = [(await shell.run("store", f"{place} is open", "--source-type", "research")).strip() for place in "ABC"]
    await shell.run("verify", *ids, "--yes", "--reason", "was there")
    listed = entries(await shell.run("audit", "--action", "verify", "--json"))
    assert [entry["target_id"] for entry in listed] == ids, "newest last"
    assert {entry["actor"] for entry in listed} == {"ada"}
    (newest,) = entries(await shell.run("audit", "--limit", "1", "--json"))
    assert newest == listed[-1]
    by_command = entries(await shell.run("audit", "--command", listed[0]["command_id"], "--json"))
    assert by_command == [listed[0]]
    assert await shell.run("audit", "--target", ids[0], "--until", "2020-01-01") == ""
    assert "engramq audit: no entry like that in the namespace of the token at http://" in shell.err


async def test_more_entries_than_one_reply_holds_are_all_shown(here: Served, shell: Shell) -> None:
    agent = await here.agent("ada", ERAS[0])
    memory = await agent.store("The bakery is open", source_type="research")
    for number in range(105):
        await agent.call("verify_memory", memory_id=memory["id"], verification="verified", reason=f"look {number}")
    listed = entries(await shell.run("audit", "--json", "--limit", "104"))
    assert [entry["reason"] for entry in listed] == [f"look {number}" for number in range(1, 105)]


async def test_a_purge_lists_first_and_erases_in_the_namespace_of_the_token(shell: Shell, here: Served) -> None:
    await here.invite("crawler", "people", NewToken(principal="crawler", scopes=ALL_SCOPES))
    await here.invite("stranger", "others", NewToken(principal="crawler", scopes=ALL_SCOPES))
    crawler, stranger = [await here.agent(name, ERAS[0]) for name in ("crawler", "stranger")]
    page, theirs = await crawler.store("A crawled page"), await stranger.store("A page of others")
    assert await shell.run("purge", "--created-by", "crawler") == f"{page['id']}  A crawled page\n"
    assert "1 memory of the namespace of the token at http" in shell.err
    out = await shell.run("purge", "--created-by", "crawler", "--yes", "--reason", "poisoned")
    assert out.startswith("Erased 1 memory")
    command = out.splitlines()[-1].split()
    assert [entry["action"] for entry in entries(await shell.run(*command[1:], "--json"))] == ["erase", "purge"]
    assert await crawler.recent() == []
    assert await stranger.recent() == [theirs["content"]]


async def test_what_was_deleted_from_the_graph_is_listed_and_restored(shell: Shell, here: Served) -> None:
    agent = await here.agent("ada", ERAS[0])
    edge = await agent.call("graph_add_edge", source_name="Ada", target_name="Bob", relation="KNOWS")
    await agent.call("graph_delete_edge", edge_id=edge["edge_id"], reason="untrue")
    (deletion,) = entries(await shell.run("graph", "deleted", "--json"))
    assert await shell.run("graph", "restore", str(deletion["audit_id"])) == f"Restored edge {edge['edge_id']}\n"
    assert await shell.run("graph", "deleted") == ""
    await shell.run("graph", "restore", "999999", code=ExitCode.FAILED)
    assert "is no deletion" in shell.err


async def test_duplicates_are_listed_and_merged(shell: Shell, here: Served) -> None:
    agent = await here.agent("ada", ERAS[0])
    older, newer = [await agent.store(SENTENCE) for _ in range(2)]
    listed = await shell.run("duplicates")
    assert listed.splitlines()[0] == f"{newer['id']}  stays  {SENTENCE}"
    assert f"  {older['id']}" in listed
    assert "Superseded 1 memory of" in await shell.run("duplicates", "--merge", "--yes")
    assert await agent.recent() == [SENTENCE]


async def test_rows_are_imported_once_into_the_namespace_of_the_token(
    shell: Shell, here: Served, tmp_path: Path
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"content": f"Boat {number} is in the harbour"}) + "\n" for number in range(8)))
    assert (await shell.run("import", str(file), "--batch", "3")).startswith("stored 8  skipped 0")
    assert (await shell.run("import", str(file))).startswith("stored 0  skipped 8")
    assert len(await (await here.agent("ada", ERAS[0])).recent()) == 8
    file.write_text('{"content": "A row of others", "namespace": "others"}\n')
    await shell.run("import", str(file), code=ExitCode.MIDWAY)
    assert "A row names namespace 'others', and the token's is 'people'" in shell.err
    await shell.run("import", str(file), "--namespace", "people", code=ExitCode.MISUSED)
    assert "the token says it" in shell.err
    file.write_text('{"type": "entity", "name": "Ada", "entityType": "person", "observations": ["Sails"]}\n')
    assert "nodes 1 (1 new)" in await shell.run("import", str(file))


async def test_an_import_by_a_token_without_the_scope_admin_is_refused(
    shell: Shell, here: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAMQ_TOKEN", here.secrets["alice"])
    (tmp_path / "rows.jsonl").write_text('{"content": "A row"}\n')
    await shell.run("import", str(tmp_path / "rows.jsonl"), code=ExitCode.FAILED)
    assert "'admin'" in shell.err


async def test_only_the_scope_admin_opens_it_whatever_tools_the_gateway_lists(
    settings: Settings, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(settings, tools="core") as few:
        await few.invite("ada", "people", NewToken(principal="ada", scopes=ALL_SCOPES))
        monkeypatch.setenv("ENGRAMQ_URL", f"http://127.0.0.1:{few.site.port}")
        monkeypatch.setenv("ENGRAMQ_TOKEN", few.secrets["ada"])
        assert "create_token" in await shell.run("audit")
        listed = {tool.name for tool in (await (await few.agent("ada", ERAS[0])).client.list_tools()).tools}
        assert listed.isdisjoint({tool.name for tool in OPERATOR_TOOLS} - {"get_command"})
        await few.invite("doubtful", "people", NewToken(principal="doubtful", scopes=ALL_SCOPES, untrusted=True))
        monkeypatch.setenv("ENGRAMQ_TOKEN", few.secrets["doubtful"])
        for code, *command in (
            (ExitCode.MIDWAY, "purge", "--created-by", "a"),
            (ExitCode.FAILED, "graph", "restore", "1"),
        ):
            await shell.run(*command, code=code)
            assert "An untrusted principal may only read" in shell.err, command
        monkeypatch.setenv("ENGRAMQ_TOKEN", few.secrets["alice"])
        for words in (("audit",), ("purge", "--created-by", "x"), ("graph", "deleted"), ("duplicates",)):
            await shell.run(*words, code=ExitCode.MIDWAY if words[0] in ("purge", "duplicates") else ExitCode.FAILED)
            assert "'admin'" in shell.err, words


async def test_a_namespace_cannot_be_named_where_the_token_names_it(shell: Shell) -> None:
    for words in (("audit",), ("purge", "--created-by", "x"), ("graph", "deleted"), ("duplicates",)):
        await shell.run(*words, "--namespace", "others", code=ExitCode.MISUSED)
        assert "the token says it" in shell.err


async def test_what_is_for_the_servers_own_machine_says_so(shell: Shell, settings: Settings) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGRAMQ_DATABASE_URL", settings.database_url)
        assert "people" in await shell.run("tenant", "list", "--all")
        assert "ENGRAMQ_URL is not asked" in shell.err
        await shell.run("migrate")
        assert "ENGRAMQ_URL" not in shell.err


def test_no_operators_tool_is_one_of_an_agents_but_those_that_are_listed() -> None:
    assert {tool.name for tool in OPERATOR_TOOLS} & set(TOOLS) == {"audit", "get_command"}


class Scripted(ToolClient):
    """A gateway that gives these replies in turn."""

    def __init__(self, *replies: dict[str, Any]) -> None:
        self.replies = list(replies)
        self.calls: list[tuple[str, Mapping[str, Any]]] = []

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append((tool, arguments))
        return self.replies.pop(0)


def test_a_write_that_takes_long_is_asked_after_until_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_client, "ASK_AGAIN_S", 0.01)
    done = {"status": "success", "matched": 3, "erased": 3, "memory_ids": [], "command_id": "c"}
    report = {"status": "done", "reply": done}
    pending = {"status": "pending", "command_id": "c"}
    gateway = Scripted(pending, {"status": "pending", "reply": None}, {"status": "running"}, report)
    purge = PurgeMemories(created_by="crawler", erase=True)
    assert gateway.reply_to(purge, Purged).erased == 3
    assert [tool for tool, _ in gateway.calls] == ["purge_memories", *["get_command"] * 3]
    first = dict(gateway.calls[0][1])
    assert first.pop("idempotency_key")
    assert first == {"created_by": "crawler", "erase": True}

    refusal = {"status": "error", "code": "forbidden", "error": "No.", "recovery": "Ask."}
    with pytest.raises(EngramqError, match="No"):
        Scripted(refusal).reply_to(purge, Purged)


PENDING: dict[str, Any] = {"status": "pending", "command_id": "c"}
UNKNOWN: dict[str, Any] = {"status": "unknown", "reply": None}
DEAD: dict[str, Any] = {
    "status": "error",
    "code": "internal",
    "error": "It was tried 5 times.",
    "recovery": "Tell the operator.",
}
AWAY: dict[str, Any] = {
    "status": "error", "code": "unavailable", "error": "No answer.", "recovery": "Later.", "retry_after_s": 0.01,
}  # fmt: skip


def test_a_write_that_has_failed_for_good_is_not_tried_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_client, "ASK_AGAIN_S", 0.01)
    gateway = Scripted(PENDING, AWAY, {"status": "failed", "reply": DEAD}, PENDING)
    purge = PurgeMemories(created_by="crawler", erase=True)
    with pytest.raises(EngramqError, match="tried 5 times") as failed:
        gateway.reply_to(purge, Purged)
    assert failed.value.fault.recovery == "Tell the operator."
    assert [tool for tool, _ in gateway.calls] == ["purge_memories", "get_command", "get_command"]

    gateway.replies = [PENDING, {"status": "failed", "reply": DEAD}]
    assert gateway.write("purge_memories", {}, key="key") == DEAD


def test_a_command_that_nobody_knows_is_not_asked_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_client, "ASK_AGAIN_S", 0.01)
    gateway = Scripted(*[PENDING, UNKNOWN] * 10)
    with pytest.raises(EngramqError, match="its answer did not come"):
        gateway.reply_to(PurgeMemories(created_by="crawler", erase=True), Purged)
    assert len(gateway.calls) == 2 * tool_client.REPEATS


def test_a_read_is_repeated_while_the_gateway_has_no_time_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    listed: dict[str, Any] = {"status": "success", "entries": [], "next_cursor": None}
    gateway = Scripted(AWAY, AWAY, listed, AWAY)
    assert gateway.reply_to(ListAudit(), AuditList).entries == []
    assert [tool for tool, _ in gateway.calls] == ["audit"] * 3
    monkeypatch.setattr(Scripted, "read_s", 0.0)
    with pytest.raises(EngramqError, match="No answer"):
        gateway.reply_to(ListAudit(), AuditList)
