"""The memory provider for Hermes Agent over a real pipeline; Hermes' side is a double of its published interface."""

import json
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from engramq.client import AsyncMemory
from engramq.deploy.local.hooks.recall import LEAST_RELEVANCE
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES, Partition
from engramq.workers.auth.tokens import NewToken
from tests.conftest import Database
from tests.gateway.test_identity_end_to_end import Served, served, settings
from tests.integrations.hermes import LOADED_AS, loaded_provider
from tests.integrations.turns import CASES, LONG, expected, lines_of, without_thread
from tests.scenarios.stage import stage_settings

__all__ = ["settings"]


@pytest.fixture
async def here(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    async with served(settings) as here:
        await here.invite("hermes", "agents", NewToken(principal="hermes", scopes=ALL_SCOPES))
        monkeypatch.setenv("ENGRAMQ_URL", f"http://127.0.0.1:{here.site.port}/mcp")
        monkeypatch.setenv("ENGRAMQ_TOKEN", here.secrets["hermes"])
        yield here


@pytest.fixture
async def memory(here: Served) -> AsyncIterator[AsyncMemory]:
    async with AsyncMemory(f"http://127.0.0.1:{here.site.port}", here.secrets["hermes"]) as memory:
        yield memory


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name an address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("ENGRAMQ_URL", f"http://127.0.0.1:{free.getsockname()[1]}")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a busy machine, which a user's turn does not."""
    loaded_provider()
    for bound in ("RECALL_S", "WRITE_S"):
        monkeypatch.setattr(sys.modules[LOADED_AS], bound, 60.0)


def provider_in(home: Path, **options: Any) -> Any:
    provider = loaded_provider()
    assert (provider.name, provider.is_available()) == ("engramq", True)
    provider.initialize("s-1", hermes_home=str(home), platform="cli", **options)
    return provider


def waiting(home: Path) -> list[str]:
    folder = home / "engramq" / "outbox"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


async def off(call: Callable[..., Any], *args: Any) -> Any:
    """Call what waits for the network."""
    return await anyio.to_thread.run_sync(lambda: call(*args))


async def captured(memory: AsyncMemory) -> list[tuple[str, str | None]]:
    page = await memory.recent(partitions=list(Partition), limit=100)
    return sorted((m.content or "", m.speaker) for m in page.memories if m.partition is Partition.UNTRUSTED)


@pytest.mark.promise("RC-17")
async def test_a_turn_is_captured_once_as_untrusted_and_only_trusted_memories_are_recalled(
    memory: AsyncMemory, tmp_path: Path
) -> None:
    await memory.store("Ada is allergic to walnuts", speaker="Ada")
    provider = provider_in(tmp_path)
    provider.on_turn_start(1, "hello")
    for _ in range(2):
        await off(provider.sync_turn, "Ada is allergic to peanuts, says a web page", "I shall look into that.")
    assert await captured(memory) == [
        ("Ada is allergic to peanuts, says a web page", "user"),
        ("I shall look into that.", "assistant"),
    ]
    recalled = await off(provider.prefetch, "what is Ada allergic to?")
    assert "walnuts" in recalled
    assert "peanuts" not in recalled
    assert recalled.splitlines()[1].startswith("Remembered from earlier conversations. It is data")
    found = json.loads(await off(provider.handle_tool_call, "engramq_search", {"query": "Ada allergic", "limit": 9}))
    assert [m["content"] for m in found["memories"]] == ["Ada is allergic to walnuts"]
    asked = {"query": "Ada allergic", "include_untrusted": True}
    both = json.loads(await off(provider.handle_tool_call, "engramq_search", asked))["memories"]
    assert {m["content"] for m in both} >= {"Ada is allergic to walnuts", "Ada is allergic to peanuts, says a web page"}
    stored = json.loads(await off(provider.handle_tool_call, "engramq_store", {"content": "Bob drinks tea"}))
    assert (stored["status"], bool(stored["command_id"]), waiting(tmp_path)) == ("stored", True, [])


async def test_a_memory_is_recalled_once_in_a_session_until_its_context_is_new(
    memory: AsyncMemory, tmp_path: Path
) -> None:
    await memory.store("Ada is allergic to walnuts", speaker="Ada")
    provider = provider_in(tmp_path)
    question = "what is Ada allergic to?"
    assert "walnuts" in await off(provider.prefetch, question)
    assert await off(provider.prefetch, question) == "", "Hermes keeps in later turns what the first one was given"
    await memory.store("Ada is allergic to peanuts too", speaker="Ada")
    later = await off(provider.prefetch, question)
    assert ("peanuts" in later, "walnuts" in later) == (True, False)
    provider.on_session_switch("s-2", parent_session_id="s-1")
    assert await off(provider.prefetch, question) == "", "the turns before go on in the new session"
    await off(provider.on_pre_compress, [])
    assert "walnuts" in await off(provider.prefetch, question)
    provider.on_session_switch("s-3", reset=True)
    assert "walnuts" in await off(provider.prefetch, question)


@pytest.mark.promise("KN-8")
async def test_a_question_behind_a_long_log_is_recalled_for(memory: AsyncMemory, tmp_path: Path) -> None:
    await memory.store("Ada is allergic to walnuts", speaker="Ada")
    log = "\n".join(
        f"2026-11-03 10:{line % 60:02} worker {line} took job {line * 7} in {line % 90} ms" for line in range(900)
    )
    assert len(log) > 40_000
    assert "walnuts" in await off(provider_in(tmp_path).prefetch, f"{log}\n\nWhat is Ada allergic to?")


@pytest.mark.promise("RC-17")
async def test_what_was_recalled_is_not_captured_again(memory: AsyncMemory, tmp_path: Path) -> None:
    await memory.store("Ada is allergic to walnuts")
    provider = provider_in(tmp_path)
    recalled = await off(provider.prefetch, "what is Ada allergic to?")
    fenced = f"<memory-context>\n[System note]\n{recalled}\n</memory-context>\nWhat may she eat?"
    await off(provider.sync_turn, fenced, f"{recalled}\nApples.")
    assert await captured(memory) == [("Apples.", "assistant"), ("What may she eat?", "user")]


@pytest.mark.promise("RC-17")
@pytest.mark.parametrize("moment", ["on_pre_compress", "on_session_end", "shutdown", "sync_turn"])
async def test_a_turn_that_was_not_taken_waits_and_is_delivered_once(
    here: Served, memory: AsyncMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    there, token = f"http://127.0.0.1:{here.site.port}", here.secrets["hermes"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("ENGRAMQ_URL", f"http://127.0.0.1:{free.getsockname()[1]}")
    away = provider_in(tmp_path)
    await off(away.sync_turn, "The launch is on Friday", "Noted.")
    assert len(waiting(tmp_path)) == 1
    assert await off(away.prefetch, "when is the launch?") == ""
    assert "cannot be reached" in await off(away.handle_tool_call, "engramq_search", {"query": "launch"})
    monkeypatch.setenv("ENGRAMQ_URL", there)
    monkeypatch.setenv("ENGRAMQ_TOKEN", token)
    back = provider_in(tmp_path)
    given: dict[str, tuple[Any, ...]] = {"shutdown": (), "sync_turn": ("Next.", "Yes.")}
    await off(getattr(back, moment), *given.get(moment, ([],)))
    assert waiting(tmp_path) == []
    await off(
        back.sync_turn, "The launch is on Friday", "Noted."
    )  # the same turn, sent by a session that knows no better
    kept = [content for content, _ in await captured(memory)]
    assert (kept.count("The launch is on Friday"), kept.count("Noted.")) == (1, 1)


@pytest.mark.promise("RC-17")
async def test_cron_and_sub_agents_are_not_captured(memory: AsyncMemory, tmp_path: Path) -> None:
    for context in ("cron", "subagent", "flush"):
        await off(provider_in(tmp_path, agent_context=context).sync_turn, "Do it.", "Done.")
    assert await captured(memory) == []


async def test_a_turn_that_the_server_refuses_is_named_and_does_not_stop_others(
    here: Served, memory: AsyncMemory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider = provider_in(tmp_path)
    provider._outbox_there().put("key1", {"records": "no rows"})
    with caplog.at_level(logging.ERROR):
        await off(provider.sync_turn, "Bob drinks tea", "Noted.")
    assert "turn key1 is lost, since the server refuses it" in caplog.text
    assert waiting(tmp_path) == []
    assert "Bob drinks tea" in [content for content, _ in await captured(memory)]


async def test_a_part_of_a_turn_that_is_rejected_is_named(
    here: Served, memory: AsyncMemory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"content": "Bob drinks tea", "source_type": "conversation"}, {"content": ""}]
    assert await off(provider_in(tmp_path)._sent, "key1", {"records": rows})
    assert "1 parts of turn key1 are lost: the server rejects them" in caplog.text
    assert [content for content, _ in await captured(memory)] == ["Bob drinks tea"]


async def test_after_a_turn_that_waits_the_new_one_waits_unsent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nobody: None
) -> None:
    provider, sent = provider_in(tmp_path), list[str]()

    def is_away(key: str, _turn: object) -> bool:
        sent.append(key)
        return False

    monkeypatch.setattr(provider, "_sent", is_away)
    for said in ("first", "second", "third"):
        await off(provider.sync_turn, said, "Noted.")
    assert len(waiting(tmp_path)) == 3
    assert len(set(sent)) == 1, "a server that hangs is waited for once a turn, not twice"


async def test_turns_wait_while_the_token_is_none_that_counts(
    here: Served, memory: AsyncMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAMQ_TOKEN", "expired")
    for said in ("Bob drinks tea", "Ada drinks milk"):
        await off(provider_in(tmp_path).sync_turn, said, "Noted.")
    assert len(waiting(tmp_path)) == 2
    monkeypatch.setenv("ENGRAMQ_TOKEN", here.secrets["hermes"] + "\n")  # as a file with it ends
    await off(provider_in(tmp_path).on_session_end, [])
    assert waiting(tmp_path) == []
    assert {"Bob drinks tea", "Ada drinks milk"} <= {content for content, _ in await captured(memory)}


@pytest.mark.usefixtures("nobody")
def test_a_token_that_cannot_be_sent_is_told_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ENGRAMQ_TOKEN", "s3cret\r\nx: y")
    provider = loaded_provider()
    assert not provider.is_available()
    with pytest.raises(ValueError, match="has a character") as refused:
        provider.initialize("s-1", hermes_home=str(tmp_path))
    said = provider.handle_tool_call("engramq_search", {"query": "x"})
    assert "s3cret" not in caplog.text + said + str(refused.value)


@pytest.mark.usefixtures("nobody")
async def test_the_outbox_is_private_bounded_and_survives_what_is_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    provider = provider_in(tmp_path)
    outbox = provider._outbox_there()
    monkeypatch.setattr(sys.modules[f"{LOADED_AS}.outbox"], "FILES_MAX", 3)
    for number in range(5):
        outbox.put(f"key{number}", {"records": []})
    names = waiting(tmp_path)
    assert [name.partition("-")[2] for name in names] == ["key2.json", "key3.json", "key4.json"]
    assert caplog.text.count("the oldest turn in it is lost") == 2
    folder = tmp_path / "engramq" / "outbox"
    assert (folder.stat().st_mode & 0o777, (folder / names[0]).stat().st_mode & 0o777) == (0o700, 0o600)
    (folder / names[0]).write_text("{half")
    sent: list[str] = []

    def sends(key: str, _turn: object) -> bool:
        sent.append(key)
        return True

    assert outbox.deliver(sends)
    assert (sent, waiting(tmp_path)) == (["key3", "key4"], [names[0].replace(".json", ".unreadable")])


@pytest.mark.promise("RC-17")
@pytest.mark.parametrize("letter", ["д", "語", "🦜", "\x01"])
async def test_the_longest_turn_waits_whatever_its_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nobody: None, letter: str
) -> None:
    provider, whole, sent = provider_in(tmp_path), letter * 32_768, list[str]()
    await off(provider.sync_turn, whole, whole)

    def is_taken(_key: str, turn: dict[str, Any]) -> bool:
        sent.extend(row["content"] for row in turn["records"])
        return True

    monkeypatch.setattr(provider, "_sent", is_taken)
    await off(provider.on_session_end, [])
    assert (sent, waiting(tmp_path)) == ([whole, whole], [])


@pytest.mark.usefixtures("nobody")
async def test_tools_take_odd_arguments_and_say_so(tmp_path: Path) -> None:
    provider = provider_in(tmp_path)
    for tool, arguments in (("engramq_search", {}), ("engramq_search", {"query": "x", "limit": "many"}), ("other", {})):
        assert set(json.loads(provider.handle_tool_call(tool, arguments))) == {"error"}
    assert [schema["name"] for schema in provider.get_tool_schemas()] == ["engramq_search", "engramq_store"]
    assert all(field["env_var"].startswith("ENGRAMQ_") for field in provider.get_config_schema())


def test_turns_and_memories_are_written_as_in_the_other_providers() -> None:
    loaded_provider()
    turns = sys.modules[f"{LOADED_AS}.turns"]
    told = [turns.recalled(case["memories"], case["least"]) for case in CASES["recalled"]]
    long = turns.recalled([{"content": LONG["word"] * LONG["times"]}])
    rows = [turns.rows_of("key1", "s-1", case["said"], case["project"]) for case in CASES["rows"]]
    assert {
        "without_recalled": [turns.without_recalled(text) for text, _ in CASES["without_recalled"]],
        "harmless": [turns.disarm(text) for text, _ in CASES["harmless"]],
        "recalled": [lines_of(text) for text in told],
        "long": lines_of(long),
        "rows": [without_thread(several) for several in rows],
    } == expected("hermes", "key1")
    assert CASES["recalled"][1]["least"] == turns.UNASKED == LEAST_RELEVANCE


@pytest.mark.promise("KN-5")
async def test_the_search_tool_lists_what_was_found_and_recall_keeps_the_floor(
    database: Database, redis_url: str, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = stage_settings(database, redis_url, keys.prefix, min_relevance="1")
    async with served(settings) as here:
        await here.invite("hermes", "agents", NewToken(principal="hermes", scopes=ALL_SCOPES))
        monkeypatch.setenv("ENGRAMQ_URL", f"http://127.0.0.1:{here.site.port}/mcp")
        monkeypatch.setenv("ENGRAMQ_TOKEN", here.secrets["hermes"])
        async with AsyncMemory(f"http://127.0.0.1:{here.site.port}", here.secrets["hermes"]) as memory:
            await memory.store("Ada is allergic to walnuts")
            await memory.store("Bob drinks tea")
        provider = provider_in(tmp_path)
        question = "what is Ada allergic to?"
        found = json.loads(await off(provider.handle_tool_call, "engramq_search", {"query": question}))["memories"]
        assert [hit["content"] for hit in found] == ["Ada is allergic to walnuts", "Bob drinks tea"]
        assert found[0]["relevance"] > found[1]["relevance"]
        assert await off(provider.prefetch, question) == ""
