"""What happens is told to who asked for it: when it is committed, signed, at least once, no more than was wanted."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from engramq.deploy.cli.status import table
from engramq.schemas.commands import Connected, Reclassified, Reply, Shared
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import LinkAction, ReclassifyStatus, WebhookEvent, WorkerKind
from engramq.workers.admin import under_way
from engramq.workers.db.database import Store
from engramq.workers.db.figures import WebhookFigures, webhook_figures
from engramq.workers.replies import announcement
from engramq.workers.webhooks import hooks
from engramq.workers.webhooks.delivery import OF_A_NAMESPACE, Delivery
from engramq.workers.webhooks.sending import KEY_FILE
from tests.conftest import Database
from tests.scenarios.stage import Agent, agent_of, running_workers, stage_settings, staged, until
from tests.terminal import run_command
from tests.workers.webhooks.receiver import SILENCE, Receiver, receiving

ALL = list(WebhookEvent)
AT_ONCE = (0.0,) * 3
WITHOUT_UPKEEP = tuple(kind for kind in WorkerKind if kind is not WorkerKind.UPKEEP)


@pytest.fixture
def settings(database: Database, redis_url: str, keys: Keys, tmp_path: Path) -> Settings:
    return stage_settings(database, redis_url, keys.prefix, webhooks_private="1", webhooks_key="", home=str(tmp_path))


@pytest.fixture
def keys(key_prefix: str) -> Keys:
    return Keys(key_prefix)


@pytest.fixture
def webhook(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Awaitable[int]]:
    """Run `engramq webhook` in the namespace acme."""
    given = {"DATABASE_URL": settings.database_url, "REDIS_URL": settings.redis_url, "KEY_PREFIX": settings.key_prefix}
    for name, value in (given | {"HOME": str(settings.home), "WEBHOOKS_PRIVATE": "1", "NAMESPACE": "acme"}).items():
        monkeypatch.setenv(f"ENGRAMQ_{name}", value)
    return partial(run_command, "webhook")


@pytest.fixture
async def store(database: Database) -> AsyncIterator[Store]:
    async with await Store.open(database.url) as store:
        yield store


@pytest.fixture
async def agent(settings: Settings) -> AsyncIterator[Agent]:
    """An agent whose workers tell nobody: tests do that themselves, when they want it."""
    async with (
        running_workers(settings, *WITHOUT_UPKEEP),
        staged(settings, workers=False) as stage,
        agent_of(await stage.gateway(), "acme", "ada") as agent,
    ):
        yield agent


async def add(
    store: Store, settings: Settings, receiver: Receiver, *events: WebhookEvent, with_content: bool = False
) -> tuple[UUID, str]:
    wanted = events or ALL
    return await hooks.add(store, settings, "acme", receiver.url(), wanted, with_content=with_content)


def delivery(store: Store, settings: Settings, waits_s: tuple[float, ...] = AT_ONCE) -> Delivery:
    return Delivery(store=store, settings=settings, waits_s=waits_s, chance=random.Random(1))


async def test_each_event_is_told_with_ids_and_a_signature_and_no_word_of_a_content(
    store: Store, settings: Settings
) -> None:
    async with receiving() as receiver, staged(settings) as stage:
        _, secret = await add(store, settings, receiver)
        service = await stage.gateway()
        async with agent_of(service, "acme", "ada") as ada, agent_of(service, "bolt", "bob") as bob:
            await bob.store("The secret of another namespace")
            old = await ada.store("The vault opens at nine")
            new = await ada.store("The vault opens at ten", source_type="research", speaker="Eve")
            await ada.call("verify_memory", memory_id=new["id"], verification="verified")
            await ada.call("memory_promote_to_trusted", record_id=new["id"])
            await ada.call("supersede_memory", old_memory_id=old["id"], new_memory_id=new["id"])
            await ada.call("supersede_memory", old_memory_id=old["id"], new_memory_id=old["id"])  # refused: not told
            told = await receiver.wait_for(4)
    messages = {(item.message["type"], item.message["data"]["memory_id"]): item.message for item in told}
    assert messages.keys() == {
        ("memory.stored", old["id"]),
        ("memory.stored", new["id"]),
        ("memory.promoted", new["id"]),
        ("memory.superseded", old["id"]),
    }
    superseded = messages["memory.superseded", old["id"]]["data"]
    assert (superseded["superseded_by"], superseded["principal"], superseded["namespace"]) == (new["id"], "ada", "acme")
    assert messages["memory.stored", new["id"]]["data"]["partition"] == "untrusted"
    assert all(item.is_signed_with(secret) for item in told)
    assert not any(item.is_signed_with(secret[:-6] + "AAAAA=") for item in told)
    assert len({item.id for item in told}) == len(told)
    everything = b"".join(item.body for item in told)
    assert all(word not in everything for word in (b"vault", b"Eve", b"another namespace"))
    assert await _waiting(store) == 0


async def test_consent_that_is_wanted_is_told(store: Store, settings: Settings, agent: Agent) -> None:
    async with receiving() as receiver:
        await add(store, settings, receiver, WebhookEvent.CONSENT_WANTED)
        fact = {"source_name": "Ada", "target_name": "Kindness", "relation": "VALUES"}
        edge = await agent.call("graph_add_edge", **fact, properties={"is_constitutive": True})
        asked = await agent.call("graph_delete_edge", edge_id=edge["edge_id"])
        assert asked["status"] == "consent_required", asked
        proposed = await agent.call("reclassify_memory_sector", **fact, new_sector="episodic")
        await delivery(store, settings).run()
    assert {item.message["type"] for item in receiver.told} == {"consent.wanted"}
    wanted = [item.message["data"]["proposal_id"] for item in receiver.told]
    assert wanted == [asked["proposal_id"], proposed["proposal_id"]]


@pytest.mark.promise("PV-1", "PV-2")
@pytest.mark.parametrize("tool", ["share_memory", "update_memory"])
async def test_a_private_memory_is_told_of_when_it_is_shared_and_until_it_is_taken_back(
    store: Store, settings: Settings, agent: Agent, tool: str
) -> None:
    async with receiving() as receiver:
        await add(store, settings, receiver, with_content=True)
        private = await agent.store("The heron nests by the pond", visibility="private")
        await delivery(store, settings).run()
        assert receiver.told == []

        async def share() -> None:
            memory = (await agent.call("get_memory", memory_id=private["id"]))["memory"]
            said = {"visibility": "shared"} if tool == "update_memory" else {}
            await agent.call(tool, memory_id=private["id"], seen=memory["digest"], **said)

        for _ in range(2):  # the second time it is shared already
            await share()
        await delivery(store, settings).run()
        (told,) = receiver.told
        data = told.message["data"]
        assert (told.message["type"], data["memory_id"], data["principal"]) == ("memory.stored", private["id"], "ada")
        assert (data["partition"], data["state"], data["content"]) == (
            "trusted",
            "active",
            "The heron nests by the pond",
        )
        await agent.call("unshare_memory", memory_id=private["id"])
        await share()
        await agent.call("unshare_memory", memory_id=private["id"])
        await delivery(store, settings).run()
        assert len(receiver.told) == 1


async def test_a_webhook_is_told_what_it_asked_for_and_contents_only_where_wanted(
    store: Store, settings: Settings, agent: Agent
) -> None:
    async with receiving() as one, receiving() as other:
        await add(store, settings, one, WebhookEvent.STORED, with_content=True)
        await add(store, settings, other, WebhookEvent.PROMOTED)
        await agent.store("The vault opens at nine")
        await delivery(store, settings).run()
        assert [told.message["data"]["content"] for told in one.told] == ["The vault opens at nine"]
        assert other.told == []


async def test_a_namespace_without_a_webhook_has_nothing_to_tell(store: Store, agent: Agent) -> None:
    await agent.store("The vault opens at nine")
    assert await _waiting(store) == 0


@pytest.mark.parametrize("how", ["erased", "archived"])
async def test_what_is_forgotten_before_it_is_told_never_leaves(
    store: Store, settings: Settings, agent: Agent, how: str
) -> None:
    async with receiving() as receiver:
        await add(store, settings, receiver, WebhookEvent.STORED, with_content=True)
        memory = await agent.store("The vault opens at nine")
        await agent.call("forget_memory", memory_id=memory["id"], erase=how == "erased")
        await delivery(store, settings).run()
        (told,) = receiver.told
    assert (told.message["data"]["memory_id"], told.message["data"]["content"]) == (memory["id"], None)
    assert b"vault" not in told.body


@pytest.mark.promise("OP-6")
async def test_what_waits_and_what_was_given_up_is_counted(
    store: Store, settings: Settings, agent: Agent, database: Database
) -> None:
    assert await webhook_figures(store) == WebhookFigures(due=0, waiting=0, oldest_s=0.0, dead=0)
    async with receiving(500, 500) as receiver:
        await add(store, settings, receiver)
        for content in ("First", "Second"):
            await agent.store(content)
        found = await webhook_figures(store)
        assert (found.due, found.waiting, found.dead) == (2, 2, 0)
        assert 0 < found.oldest_s < 60
        for _ in range(2):  # two tries: the first message is given up, and the second waits
            await delivery(store, settings, (0.0,)).run()
    found = (await asyncio.to_thread(under_way, database.url))["webhooks"]
    assert (found["due"], found["waiting"], found["dead"]) == (1, 1, 1)
    assert "  webhooks: 1 message given up (engramq webhook dead)" in table(
        {"running": True, "addresses": {}, "webhooks": found}
    )


@pytest.mark.promise("OP-6")
async def test_what_waits_for_its_next_try_is_counted_with_its_age(
    store: Store, settings: Settings, agent: Agent, database: Database
) -> None:
    """A receiver that is away has hours between two tries, in which nothing is due."""
    async with receiving(500) as receiver:
        await add(store, settings, receiver)
        await agent.store("First")
        await agent.store("Second")
        await delivery(store, settings, (3_600.0,)).run()
    database.rows("update webhook_outbox set at = at - interval '1 hour'")
    found = await webhook_figures(store)
    assert (found.due, found.waiting, found.dead) == (0, 2, 0)
    assert 3_600 <= found.oldest_s < 3_700


@pytest.mark.promise("OP-6")
async def test_a_namespace_is_counted_however_many_others_have_messages(store: Store, database: Database) -> None:
    """Dead messages of a hundred and one namespaces take no room."""
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        for number in range(101):
            _message_of(owner, f"a{number:03}", ages_s=(1_000,), dead=True)
        _message_of(owner, "late", ages_s=(50, 7_200, 60), dead=False)
    found = await webhook_figures(store)
    assert (found.due, found.waiting, found.dead) == (3, 3, 101)
    assert 7_200 <= found.oldest_s < 7_300


async def test_what_is_refused_is_told_again_by_the_same_id_behind_what_was_tried_less(
    store: Store, settings: Settings, agent: Agent
) -> None:
    async with receiving(500, 307, 204) as receiver:
        _, secret = await add(store, settings, receiver)
        first = await agent.store("First")
        second = await agent.store("Second")
        for _ in range(3):
            await delivery(store, settings).run()
    told = [(item.message["data"]["memory_id"], item.path) for item in receiver.told]
    assert told == [(stored["id"], "/hook") for stored in (first, second, second, first)]
    assert len({item.id for item in receiver.told}) == 2
    assert all(item.is_signed_with(secret) for item in receiver.told)


async def test_a_webhook_that_fails_is_left_alone_as_a_whole_and_longer_each_time(
    store: Store, settings: Settings, agent: Agent, database: Database
) -> None:
    """Security finding 7: one try of each message, 5 s apart, is a place that others do not get."""
    pass_over = "update webhook_outbox set next_at = next_at - interval '1 hour' returning 1"
    async with receiving(500, 500, 500, 204) as receiver:
        await add(store, settings, receiver)
        stored = [(await agent.store(content))["id"] for content in ("First", "Second", "Third")]
        waits = delivery(store, settings, (100.0, 1_000.0, 3_000.0))
        await waits.run()
        stored.append((await agent.store("Fourth"))["id"])
        await waits.run()
        assert len(receiver.told) == 1, "what is new waits too"
        seconds = "extract(epoch from min(next_at) - now())::integer"
        assert 70 <= database.rows(f"select {seconds} as s from webhook_outbox")[0]["s"] <= 120
        database.rows(pass_over)
        await waits.run()
        assert 700 <= database.rows(f"select {seconds} as s from webhook_outbox")[0]["s"] <= 1_200
        tries = database.rows("select attempts from webhook_outbox order by at")
        assert [row["attempts"] for row in tries] == [2, 1, 1, 1], "the second failure counts for all"
        database.rows(pass_over)
        await waits.run()
        database.rows(pass_over)
        await waits.run()
        assert await _waiting(store) == 0
        stored.append((await agent.store("Fifth"))["id"])
        await waits.run()
        assert {item.message["data"]["memory_id"] for item in receiver.told} == set(stored)
        assert len(receiver.told) == 3 + 5


async def test_nothing_is_lost_while_the_receiver_is_away(store: Store, settings: Settings, agent: Agent) -> None:
    async with receiving() as receiver:
        port = receiver.port
        await add(store, settings, receiver)
    stored = [(await agent.store(f"Number {number}"))["id"] for number in range(5)]
    await delivery(store, settings).run()
    assert await _waiting(store) == 5
    back = Receiver()
    server = await asyncio.start_server(back.serve, "127.0.0.1", port)
    await delivery(store, settings).run()
    server.close()
    told = [item.message["data"]["memory_id"] for item in back.told]
    assert told == [*stored[1:], stored[0]], "what was tried already comes last"


async def test_who_dies_after_telling_tells_again_by_the_same_id(
    store: Store, settings: Settings, agent: Agent
) -> None:
    async with receiving(SILENCE, 204) as receiver:
        await add(store, settings, receiver)
        await agent.store("The vault opens at nine")
        dying = asyncio.create_task(delivery(store, settings).run())
        await receiver.wait_for(1)
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)
        await delivery(store, settings).run()
        first, again = receiver.told
    assert (first.id, first.body) == (again.id, again.body)
    assert await _waiting(store) == 0


async def test_a_slow_receiver_keeps_no_other_one_waiting(store: Store, settings: Settings, agent: Agent) -> None:
    async with receiving(SILENCE) as slow, receiving() as quick:
        await add(store, settings, slow)
        await add(store, settings, quick)
        await agent.store("The vault opens at nine")
        telling = asyncio.create_task(delivery(store, settings).run())
        await quick.wait_for(1, bound_s=5.0)
        await slow.wait_for(1)
        assert not telling.done()
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def test_namespaces_with_slow_receivers_leave_places_and_turns_to_the_others(
    store: Store, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Security finding 7: 40 receivers that answer nothing, of three namespaces, and a quick one behind them."""
    async with receiving(SILENCE) as slow, receiving() as quick:
        for namespace in ("aaa", "bbb", "ccc", "zzz"):
            receiver, count = (quick, 1) if namespace == "zzz" else (slow, 13)
            for _ in range(count):
                await hooks.add(store, settings, namespace, receiver.url(), ALL, with_content=False)
        database.rows(
            "insert into webhook_outbox (tenant, webhook_id, event, told) "
            "select tenant, id, 'memory.stored', '{}' from webhooks returning 1"
        )
        telling = asyncio.create_task(delivery(store, settings).run())
        await quick.wait_for(1, bound_s=5.0)
        await slow.wait_for(3 * OF_A_NAMESPACE)
        assert len(slow.told) == 3 * OF_A_NAMESPACE
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)

        monkeypatch.setattr("engramq.workers.webhooks.delivery.RECEIVERS_AT_ONCE", 1)
        for turn in range(1, 4):  # each by a process of its own: one that is new goes on where the last was stopped
            telling = asyncio.create_task(delivery(store, settings).run())
            await slow.wait_for(3 * OF_A_NAMESPACE + turn)
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        assert {item.message["data"]["namespace"] for item in slow.told[-3:]} == {"aaa", "bbb", "ccc"}


async def test_what_nobody_takes_is_dead_until_somebody_has_it_sent_once_more(
    store: Store,
    settings: Settings,
    agent: Agent,
    webhook: Callable[..., Awaitable[int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with receiving(500) as receiver:
        webhook_id, _ = await add(store, settings, receiver)
        await agent.store("The vault opens at nine")
        for _ in range(6):
            await delivery(store, settings).run()
        assert len(receiver.told) == len(AT_ONCE) + 1
        (dead,) = await hooks.list_dead(store, "acme")
        assert (dead.attempts, dead.problem) == (4, "answered 500")
        assert await webhook("dead") == 0
        assert f"{dead.id}  memory.stored" in capsys.readouterr().out
        receiver.statuses = [204]
        assert await webhook("retry", str(webhook_id)) == 0
        await delivery(store, settings).run()
        assert receiver.told[-1].id == str(dead.id)
        assert await webhook("retry", str(dead.id)) != 0


async def test_another_key_tells_nothing(store: Store, settings: Settings, agent: Agent) -> None:
    async with receiving() as receiver:
        await add(store, settings, receiver)
        await agent.store("The vault opens at nine")
        place = settings.home / KEY_FILE
        assert place.stat().st_mode & 0o077 == 0
        place.write_text("another key of the same length, or longer")
        await delivery(store, settings).run()
        assert receiver.told == []
    assert await _waiting(store) == 1


async def test_webhooks_are_added_listed_tested_and_removed_by_the_command(
    store: Store,
    settings: Settings,
    agent: Agent,
    webhook: Callable[..., Awaitable[int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with receiving(204, 404) as receiver:
        url = receiver.url()
        assert await webhook("add", url, "--with-content") == 0
        secret = capsys.readouterr().out.strip()
        (added,) = await hooks.list_webhooks(store, "acme")
        assert await webhook("test", str(added.id)) == 0
        assert await webhook("test", str(added.id)) != 0
        assert "answered 404" in capsys.readouterr().err
        assert receiver.told[0].message["type"] == "webhook.test"
        assert receiver.told[0].is_signed_with(secret)
        assert await webhook("list") == 0
        said = capsys.readouterr().out
        assert (str(added.id) in said, "with content" in said, secret in said) == (True, True, False)
        await agent.store("The vault opens at nine")
        assert await webhook("remove", str(added.id)) == 0
        assert await webhook("remove", str(added.id)) != 0
    assert await _waiting(store) == 0
    assert not any(
        secret in str(row) for row in await store.read("acme", lambda tx: tx.rows(b"select * from webhooks"))
    )


async def test_upkeep_tells_without_being_asked(store: Store, settings: Settings) -> None:
    async with receiving() as receiver, staged(settings) as stage:
        await add(store, settings, receiver)
        async with agent_of(await stage.gateway(), "acme", "ada") as ada:
            await ada.store("The vault opens at nine")
            await receiver.wait_for(1)

        async def is_empty() -> bool:
            return await _waiting(store) == 0

        await until(is_empty)


def _message_of(owner: psycopg.Connection[Any], namespace: str, *, ages_s: tuple[float, ...], dead: bool) -> None:
    owner.execute(
        "with told as (insert into webhooks (tenant, id, url, events, with_content, key_id, created_by) "
        "values (make_tenant(%(namespace)s), gen_random_uuid(), 'https://receiver.example', '{memory.stored}', false, "
        "'x', 'ada') returning tenant, id) "
        "insert into webhook_outbox (tenant, webhook_id, event, told, at, dead_at) "
        "select told.tenant, told.id, 'memory.stored', '{}', now() - make_interval(secs => age), "
        "case when %(dead)s then now() end from told, unnest(%(ages_s)s::double precision[]) age",
        {"namespace": namespace, "ages_s": list(ages_s), "dead": dead},
    )


async def _waiting(store: Store) -> int:
    row = await store.read("acme", lambda tx: tx.row(b"select count(*) as n from webhook_outbox"))
    return 0 if row is None else int(row["n"])


PROPOSAL: Any = {"proposal_id": "p", "expires_at": "2026-01-31T09:00:00Z"}


@pytest.mark.parametrize(
    "reply",
    [
        Reclassified(**PROPOSAL, status=ReclassifyStatus.CONSENT_REQUIRED, approved_by=["ada"]),
        Shared(**PROPOSAL, status="consent_required", memory_id="private"),
    ],
)
def test_a_proposal_that_waits_for_others_is_announced_by_its_id_alone(reply: Reply) -> None:
    announced = announcement(reply)
    assert announced is not None
    assert (announced.event, announced.data) == (WebhookEvent.CONSENT_WANTED, PROPOSAL)


@pytest.mark.parametrize(
    "reply",
    [
        Reclassified(**PROPOSAL, status=ReclassifyStatus.CONSENT_REQUIRED, approved_by=["ada", "bob"]),
        Reclassified(status=ReclassifyStatus.NOT_FOUND),
        Connected(
            action=LinkAction.CREATED, source_id="a", target_id="b", relation="r", weight=1.0, note=None,
            reinforcement_count=0, displaced_edge=None, displaced_edges=[], summary="",
        ),
    ],
)  # fmt: skip
def test_nobody_is_told_where_nobody_has_to_consent(reply: Reply) -> None:
    assert announcement(reply) is None
