"""One story through every door that a team uses: what tests of servers beyond one machine run as a whole."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from engramq.schemas.settings import Settings
from tests.scenarios.stage import Stage, agent_of, until
from tests.scenarios.test_dead_command import a_store, bury
from tests.terminal import Terminal

CommandLine = Callable[..., Awaitable[tuple[int, str, str]]]


def terminal_of(settings: Settings, capsys: pytest.CaptureFixture[str], **more: str) -> CommandLine:
    """Return what runs `engramq` commands on these servers: exit code, standard output, standard error."""
    names = ("database_url", "redis_url", "key_prefix", "embedder")
    environment = {f"ENGRAMQ_{name.upper()}": str(getattr(settings, name)) for name in names} | more

    async def run(*arguments: str) -> tuple[int, str, str]:
        with mock.patch.dict("os.environ", environment):
            return await Terminal(capsys)(*arguments)

    return run


async def tell(stage: Stage, terminal: CommandLine, folder: Path, redis_url: str) -> None:
    """Store, search, link, promote, import, remember, forget, bury and look: each through MCP or the command line.

    `redis_url` is an administrator's way to the same Redis, to make dead letters with.
    """
    await tell_agents(stage)
    await _from_the_command_line(stage, terminal, folder, redis_url)


async def tell_agents(stage: Stage) -> None:
    """Do what of the story goes through MCP."""
    service = await stage.gateway()
    async with agent_of(service) as ada, agent_of(service, principal="web", untrusted=True) as web:
        first = await ada.store("Ada keeps bees in the garden behind the mill", session="bees")
        second = await ada.store("The honey of the mill is sold on Saturdays")
        rumour = await web.store("The mill burned down in 1911")
        assert first["id"] in {hit["id"] for hit in await ada.search("Who keeps bees?")}
        linked = await ada.call("connect", source=first["id"], target=second["id"], relation="supports")
        assert linked["status"] in {"created", "connected", "linked", "success"}, linked
        await ada.call("record_outcome", memory_ids=[first["id"]], signal=0.9)
        await ada.call("verify_memory", memory_id=rumour["id"], verification="verified", reason="the chronicle")
        promoted = await ada.call("memory_promote_to_trusted", record_id=rumour["id"])
        assert promoted["status"] == "promoted", promoted
        brought = await ada.call("import_memories", records=[{"content": f"Hive {n} swarmed"} for n in range(9)])
        assert brought["status"] in {"success", "accepted"}, brought
        begun = await ada.call("begin_session", session="honey")
        assert begun["status"] == "success", begun
        third = await ada.store("The centrifuge is lent to Grace", session="honey")
        crumbs = await ada.call("get_breadcrumbs", session="honey")
        assert third["id"] in json.dumps(crumbs)
        erased = await ada.call("forget_memory", memory_id=third["id"], erase=True, reason="lent no more")
        assert erased["status"] in {"success", "forgotten", "erased"}, erased
        await ada.call("graph_add_edge", source_name="Ada", target_name="Mill", relation="LIVES_AT")
        assert (await ada.call("memory_stats"))["status"] == "success"


async def _from_the_command_line(stage: Stage, terminal: CommandLine, folder: Path, redis_url: str) -> None:
    file = folder / "notes.jsonl"
    file.write_text("".join(json.dumps({"content": f"Frame {n} is full"}) + "\n" for n in range(40)))
    assert (await terminal("import", str(file)))[0] == 0
    for letter in (retried := a_store("default_user", "once more"), dropped := a_store("default_user", "never")):
        await bury(_at(stage.settings, redis_url), letter)
    assert retried.id in (await terminal("dead", "list", "--json"))[1]
    assert (await terminal("dead", "retry", retried.id))[0] == 0
    assert (await terminal("dead", "drop", dropped.id))[0] == 0
    async with agent_of(await stage.gateway()) as ada:

        async def stored() -> bool:
            return "once more" in await ada.recent()

        await until(stored)
    code, told, _ = await terminal("status", "--json")
    assert (code, json.loads(told)["health"]["status"]) == (0, "ready"), told


def _at(settings: Settings, redis_url: str) -> Settings:
    return replace(settings, redis_url=redis_url)
