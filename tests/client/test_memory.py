"""The client over a real gateway and a whole pipeline, also where the gateway dies in the middle."""

import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator

import anyio
import anyio.to_thread
import pytest

import engramq
from engramq.client import AsyncMemory, Memory, NotReached, Policy, Refused
from engramq.schemas.commands import EdgeFound, EdgeMissing, NodeFound, NodeMissing
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES, Scope
from engramq.workers.auth.tokens import NewToken
from tests.gateway.test_identity_end_to_end import Served, served, settings
from tests.gateway.test_process import records_until, started
from tests.scenarios.stage import running_workers

__all__ = ["settings"]


@pytest.fixture
async def here(settings: Settings) -> AsyncIterator[Served]:
    async with served(settings) as here:
        await here.invite("admin", "client", NewToken(principal="admin", scopes=ALL_SCOPES))
        await here.invite("reader", "client", NewToken(principal="reader", scopes=(Scope.READ,)))
        yield here


def url_of(here: Served) -> str:
    return f"http://127.0.0.1:{here.site.port}"


def visit(memory: Memory) -> None:
    """Make every kind of call that waits for nobody else."""
    old = memory.store("Ada prefers tea", speaker="Ada", tags=["taste"], session="today").stored
    new = memory.store("Ada prefers coffee since May", external_id="note-1").stored
    assert [hit.id for hit in memory.search("what does Ada drink?", limit=2).memories] != []
    assert memory.supersede(old.id, new.id).old.superseded_by == new.id
    assert [hit.id for hit in memory.search("what does Ada drink?").memories] == [new.id]
    found = memory.get(old.id)
    assert (found.memory and found.memory.tags, memory.get("unknown").memory) == (["taste"], None)
    assert memory.restore(old.id).status == "restored"
    changed = memory.update(new.id, add_tags=["drinks"], metadata={"from": "a chat"}).memory
    assert (changed and changed.metadata, changed and changed.tags) == ({"from": "a chat"}, ["drinks"])
    assert memory.connect(old.id, new.id, relation="contradicts").status == "success"
    assert memory.connect_many([{"source": new.id, "target": old.id}]).status == "success"
    assert memory.record_outcome([new.id], 0.9).status == "success"
    assert memory.disconnect(old.id, new.id).status == "success"
    assert memory.verify(new.id, "verified", reason="asked her").status == "success"
    assert memory.import_many([{"content": "Bob prefers water"}], on_duplicate="skip").status == "accepted"

    added = memory.add_edge("Ada", "Engine", "DESIGNED", weight=0.9)
    assert added.status == "success"
    assert isinstance(memory.get_edge("Ada", "Engine", "DESIGNED"), EdgeFound)
    assert isinstance(memory.get_edge("Ada", "Engine", "HATED"), EdgeMissing)
    assert isinstance(memory.get_node("Ada"), NodeFound)
    assert isinstance(memory.get_node("Eve"), NodeMissing)
    assert memory.list_edges(node_name="Ada").status == "success"
    assert memory.neighbors("Ada", depth=2).status == "success"
    assert memory.find_path("Ada", "Engine").status == "success"
    assert memory.list_proposals().proposals == []

    assert memory.begin_session(session="today").session == "today"
    assert memory.breadcrumbs("today").status == "success"
    assert memory.guide(topic="store_memory")["entry"]["what"]
    assert memory.stats().memories >= 2
    assert memory.audit(target=new.id).entries != []
    assert memory.get_command("unknown").reply is None
    assert memory.forget(old.id, erase=True).status == "erased"


@pytest.mark.promise("RC-8")
async def test_every_kind_of_call_is_answered_in_types(here: Served) -> None:
    with engramq.Memory(url_of(here), here.secrets["admin"]) as memory:
        await anyio.to_thread.run_sync(visit, memory)


@pytest.mark.promise("RC-8")
async def test_the_asynchronous_client_makes_the_same_calls(here: Served) -> None:
    async with engramq.AsyncMemory(f"{url_of(here)}/mcp", here.secrets["admin"]) as memory:
        stored = [(await memory.store(f"Fact number {number}")).stored.id for number in range(7)]
        listed = [record.id async for record in memory.each_recent(limit=3)]
        assert listed == stored[::-1]
        assert (await memory.search("fact", tags=None, limit=1)).count == 1


async def test_pages_follow_each_other(here: Served) -> None:
    def listed() -> tuple[list[str], list[str]]:
        with Memory(url_of(here), here.secrets["admin"]) as memory:
            stored = [memory.store(f"Page fact {number}").stored.id for number in range(5)]
            return stored, [record.id for record in memory.each_recent(limit=2)]

    stored, found = await anyio.to_thread.run_sync(listed)
    assert found == stored[::-1]


@pytest.mark.promise("RC-8")
async def test_a_refusal_is_raised_with_its_code_and_what_to_do(here: Served) -> None:
    async with AsyncMemory(url_of(here), here.secrets["reader"]) as memory:
        with pytest.raises(Refused) as refused:
            await memory.store("x")
        assert (refused.value.code, refused.value.http_status) == ("forbidden", 403)
        assert refused.value.recovery
        with pytest.raises(Refused) as refused:
            await memory.search("x", limit=51)
        assert (refused.value.code, refused.value.field) == ("invalid_parameter", "limit")
    async with AsyncMemory(url_of(here), "nobody") as memory:
        with pytest.raises(Refused) as refused:
            await memory.stats()
        assert (refused.value.code, refused.value.http_status) == ("", 401)


async def test_url_and_token_come_from_the_environment(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAMQ_URL", url_of(here))
    monkeypatch.setenv("ENGRAMQ_TOKEN", here.secrets["admin"])
    async with AsyncMemory() as memory:
        assert (await memory.stats()).status == "success"


@pytest.mark.parametrize("url", ["127.0.0.1:8765", "ftp://memory", "http://", "memory"])
def test_a_url_that_is_none_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(ValueError, match="is no http or https URL"):
        Memory(url)


def test_nobody_there_is_said_within_the_time_of_a_call() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with (
        Memory(f"http://127.0.0.1:{port}", policy=Policy(call_s=0.5)) as memory,
        pytest.raises(NotReached, match="cannot be reached"),
    ):
        memory.store("x")


@pytest.mark.promise("RC-8")
@pytest.mark.timeout(180)
async def test_stores_through_a_gateway_that_is_killed_are_all_kept_once(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    environment = {
        "ENGRAMQ_REDIS_URL": settings.redis_url,
        "ENGRAMQ_KEY_PREFIX": settings.key_prefix,
        "ENGRAMQ_PORT": port,
    }
    wanted = [f"Kept once, number {number}" for number in range(40)]
    begun = threading.Event()

    def store_all(every: list[str]) -> None:
        with Memory(f"http://127.0.0.1:{port}", policy=Policy(call_s=90.0)) as memory:
            for content in every:
                memory.store(content)
                begun.set()

    def kill_twice() -> None:
        for _ in range(2):
            with started(environment) as (process, log):
                records_until(log, "Serving MCP over HTTP")
                begun.clear()
                assert begun.wait(60.0)
                process.kill()
                process.wait(20)

    def serve_to_the_end(stop: threading.Event) -> None:
        with started(environment) as (_, log):
            records_until(log, "Serving MCP over HTTP")
            threading.Thread(target=log.read, daemon=True).start()
            assert stop.wait(100.0)

    def run_all() -> list[str]:
        stop = threading.Event()
        storing = [threading.Thread(target=store_all, args=(wanted[half::2],)) for half in range(2)]
        for thread in storing:
            thread.start()
        kill_twice()
        serving = threading.Thread(target=serve_to_the_end, args=(stop,))
        serving.start()
        for thread in storing:
            thread.join()
        with Memory(f"http://127.0.0.1:{port}") as memory:
            found = [record.content for record in memory.each_recent(limit=100)]
        stop.set()
        serving.join()
        return found

    async with running_workers(settings):
        found = await anyio.to_thread.run_sync(run_all)
    assert Counter(found) == Counter(wanted)
