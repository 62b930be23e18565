"""`engramq dead` as an operator calls it, over a whole pipeline."""

import json
import time

import pytest
from redis.asyncio import Redis

from engramq.schemas.codec import encode
from engramq.schemas.commands import StoreMemory
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES, WorkerKind
from engramq.workers.queue.dead_letters import DeadLetter, encode_letter
from tests.scenarios.stage import Agent, Stage, agent_of, until
from tests.terminal import Terminal, terminal

__all__ = ["terminal"]

pytestmark = pytest.mark.promise("QP-6")

SECRET = "Ada's password is heliotrope"


async def bury(settings: Settings, letter: DeadLetter) -> None:
    of = Keys(settings.key_prefix).of[letter.mailbox]
    async with Redis.from_url(settings.redis_url) as redis:
        await redis.hset(of.dead, letter.id, encode_letter(letter))
        await redis.zadd(of.dead_index, {letter.id: letter.died_at * 1000})


def a_store(namespace: str, content: str = SECRET) -> DeadLetter:
    principal = Principal(name="ada", scopes=ALL_SCOPES)
    envelope = Envelope(id=uuid7(), namespace=namespace, principal=principal, command=StoreMemory(content=content))
    return DeadLetter(
        id=envelope.id,
        mailbox=WorkerKind.EMBEDDING,
        raw=encode(envelope),
        error="WorkerDied",
        message="It was begun 5 times.",
        attempts=5,
        died_at=time.time(),
        issued_at=time.time() - 60,
    )


async def test_letters_are_listed_and_shown_without_content_unless_that_is_asked_for(
    terminal: Terminal, settings: Settings, agent: Agent
) -> None:
    await agent.store("so that there is a tenant")
    mine, other = a_store("default_user"), a_store("elsewhere")
    broken = DeadLetter(
        id="whole.1", mailbox=WorkerKind.RECALL, raw=b"\xc1\x1b[2J", error="E", message="m", attempts=1, died_at=1.0
    )
    for letter in (mine, other, broken):
        await bury(settings, letter)

    code, out, _ = await terminal("dead", "list")
    lines = out.splitlines()
    assert (code, [line.split()[0] for line in lines]) == (0, ["whole.1", mine.id, other.id])
    for said in ("embedding: store_memory", "5 tries", "WorkerDied", "It was begun 5 times.", "by 'ada'"):
        assert said in lines[1]
    assert "recall: unreadable" in lines[0]
    assert "heliotrope" not in out
    assert "\x1b" not in out

    code, out, _ = await terminal("dead", "list", "--json", "--namespace", "default_user", "--kind", "embedding")
    (told,) = [json.loads(line) for line in out.splitlines()]
    assert {name: told[name] for name in ("id", "kind", "command", "namespace", "principal", "tries", "error")} == {
        "id": mine.id, "kind": "embedding", "command": "store_memory", "namespace": "default_user",
        "principal": "ada", "tries": 5, "error": "WorkerDied",
    }  # fmt: skip
    assert (await terminal("dead", "list", "--kind", "sectors"))[2] == "engramq dead: there are none\n"
    assert (await terminal("dead", "list", "--kind", "nonsense"))[0] == 2

    code, out, _ = await terminal("dead", "show", mine.id)
    assert (code, "heliotrope" in out, json.loads(out)["bytes"]) == (0, False, len(mine.raw))
    code, out, _ = await terminal("dead", "show", mine.id, "--content")
    assert json.loads(out)["content"]["content"] == SECRET
    code, out, _ = await terminal("dead", "show", "whole.1", "--content")
    assert json.loads(out)["raw_base64"] == "wRtbMko="
    for arguments in (("show", other.id), ("retry", other.id), ("drop", other.id), ("drop", "whole.1")):
        code, _, err = await terminal("dead", *arguments, "--namespace", "default_user")
        assert (code, "There is no dead letter" in err) == (1, True)
    assert len((await terminal("dead", "list"))[1].splitlines()) == 3


async def test_a_retried_command_is_done_once_and_a_dropped_one_never_and_both_are_audited(
    terminal: Terminal, settings: Settings, stage: Stage
) -> None:
    async with agent_of(await stage.gateway(), principal="ada") as ada:
        await ada.store("so that there is a tenant")
        retried, dropped = a_store("default_user"), a_store("default_user", "Never to be stored")
        for letter in (retried, dropped):
            await bury(settings, letter)
        code, out, _ = await terminal("dead", "retry", retried.id, "--reason", "fixed", "--json")
        assert (code, json.loads(out)) == (0, {"id": retried.id, "status": "retried"})

        async def stored() -> bool:
            return (await ada.recent()).count(SECRET) == 1

        await until(stored)
        assert (await ada.call("get_command", command_id=retried.id))["status"] == "done"

        # As after a crash that came between the commit and the answer: it is known, and not done again.
        await bury(settings, retried)
        assert (await terminal("dead", "retry", retried.id))[0] == 0
        code, out, _ = await terminal("dead", "drop", dropped.id)
        assert (code, out) == (0, f"{dropped.id}  dropped\n")
        assert (await terminal("dead", "drop", dropped.id))[0] == 1

        async def ended() -> bool:
            stats = await ada.call("memory_stats")
            return bool(stats["queues"]["embedding"] == {"depth": 0, "dead": 0})

        await until(ended)
        assert await stored()
        assert "Never to be stored" not in await ada.recent()
        entries = (await ada.call("audit"))["entries"]
        noted = [(entry["action"], entry["command_id"], entry["reason"]) for entry in reversed(entries)]
        assert noted == [
            ("retry_command", retried.id, "fixed"),
            ("retry_command", retried.id, None),
            ("drop_command", dropped.id, None),
        ]
        assert {entry["actor"] for entry in entries} == {"I/O"}
        assert "heliotrope" not in json.dumps(entries)


async def test_a_redis_that_is_away_is_named(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAMQ_REDIS_URL", "unix:///nowhere/redis.sock")
    code, _, err = await terminal("dead", "list")
    assert (code, "Redis cannot be asked" in err) == (1, True)
