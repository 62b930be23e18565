"""The sweep, and what forgets."""

from datetime import timedelta

import pytest

from engramq.schemas.commands import (
    AddEdge,
    BatchImported,
    ClassifySectors,
    DeleteEdge,
    EdgeAdded,
    EmbedPending,
    ForgetMemory,
    Forgotten,
    GraphDeleted,
    ImportBatch,
    ImportRecord,
    LinkActivated,
    PendingEmbedded,
    StoreMemory,
)
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.setting_values import Retention
from engramq.workers.db.database import DatabaseHealth
from engramq.workers.db.transaction import Transaction
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.queue import background
from engramq.workers.queue.background import Activity
from engramq.workers.queue.contract import FollowUp
from engramq.workers.upkeep import schedule, unfinished
from engramq.workers.upkeep.schedule import Upkeep
from engramq.workers.upkeep.unfinished import Unfinished
from tests.assignments import assignment
from tests.workers.conftest import World
from tests.workers.test_idle import grow_old


async def finish(world: World, follow_ups: tuple[FollowUp, ...]) -> int:
    done = 0
    for item in follow_ups:
        done += (await world.ask(PendingEmbedded, item.command, namespace=item.namespace)).activated
    return done


@pytest.mark.promise("MT-11")
async def test_a_sweep_hands_on_what_is_pending_in_every_namespace(world: World) -> None:
    world.model.down = True
    expected = {}
    for namespace in ("one", "two"):
        expected[namespace] = {(await world.keep(f"{word} waits", namespace=namespace)).stored.id for word in "abc"}
    world.model.down = False
    await world.keep("whole", namespace="three")
    found = await world.upkeep.look()
    commands = {item.namespace: item.command for item in found}
    assert all(isinstance(command, EmbedPending) for command in commands.values())
    assert {name: set(command.memory_ids) for name, command in commands.items()} == expected  # type: ignore[attr-defined]
    assert await finish(world, found) == 6
    assert await world.upkeep.look() == ()


async def test_a_memory_that_was_just_stored_is_left_to_whoever_has_it(world: World) -> None:
    world.model.down = True
    await world.keep("a moment ago")
    patient = Upkeep(store=world.store, unfinished=world.upkeep.unfinished, interval_s=5.0, pending_s=60.0)
    assert await patient.look() == ()


async def test_while_the_model_is_down_a_sweep_hands_on_less_and_less_often(world: World) -> None:
    world.model.down = True
    for number in range(5):
        await world.keep(f"waiting {number}")
    first = await world.upkeep.look()
    assert await finish(world, first) == 0
    second = await world.upkeep.look()
    assert len(second) == 1
    assert await finish(world, second) == 0
    assert await world.upkeep.look() == ()  # it backs off now
    world.model.down = False
    assert await finish(world, second) == 5


async def test_memories_that_cannot_be_embedded_do_not_block_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "BATCH", 2)
    monkeypatch.setattr(schedule, "BATCHES", 1)
    world.model.down = True
    ids = [(await world.keep(f"waiting {number}")).stored.id for number in range(5)]
    seen: list[str] = []
    for _ in range(4):
        for item in await world.upkeep.look():
            assert isinstance(item.command, EmbedPending)
            seen += item.command.memory_ids
        for progress in world.upkeep._progress.values():
            progress.back_off.not_before = 0.0
    assert seen[:5] == ids
    assert seen[5:] == ids[:2]


@pytest.mark.own_database
async def test_a_namespace_whose_upkeep_fails_keeps_no_other_waiting(world: World) -> None:
    """Security finding 14: a clock that no SQL could count with ended the decay of all namespaces behind it."""
    for namespace in ("aaa", "zzz"):
        memory = (await world.keep("expires", namespace=namespace)).stored.id
        world.rows("update memories set expires_at = now() - interval '1 hour' where node_id = %s returning 1", memory)
        await world.complete(assignment(StoreMemory(content="old"), namespace=namespace))
    world.rows("update ledger set created_at = now() - interval '8 days' returning 1")
    world.rows(
        "create function fail() returns trigger language plpgsql as $$ begin "
        "if old.tenant = tenant_of('aaa') then raise numeric_value_out_of_range; end if; "
        "return case tg_op when 'DELETE' then old else new end; end $$"
    )
    for table, does in (("ledger", "delete"), ("memories", "update")):
        world.rows(f"create trigger fails before {does} on {table} for each row execute function fail()")
    try:
        await world.upkeep.trim()
        await world.upkeep.archive_expired()
    finally:
        world.rows("drop function fail cascade")
    assert world.rows("select count(*) as n from ledger where tenant = tenant_of('zzz')") == [{"n": 0}]
    assert world.rows("select count(*) as n from ledger where tenant = tenant_of('aaa')")[0]["n"] > 0
    states = "select state from memories where expires_at is not null and tenant = tenant_of(%s)"
    assert [world.rows(states, name)[0]["state"] for name in ("aaa", "zzz")] == ["active", "archived"]


async def test_a_namespace_whose_rows_cannot_be_read_keeps_no_other_waiting_nor_its_own_other_kinds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    trim, trimmed = schedule.trim, list[str]()
    for namespace in ("aaa", "zzz"):
        await world.complete(assignment(StoreMemory(content="old"), namespace=namespace))
    world.rows("update ledger set created_at = now() - interval '8 days' returning 1")

    async def overflow_at_the_first(tx: Transaction, query: str) -> int:
        if (tx.namespace, query) == ("aaa", "ledger_trim"):
            raise OverflowError("date value out of range")
        if query == "trim_proposals":
            trimmed.append(tx.namespace)
        return await trim(tx, query)

    monkeypatch.setattr(schedule, "trim", overflow_at_the_first)
    await world.upkeep.trim()
    assert world.rows("select count(*) as n from ledger where tenant = tenant_of('zzz')") == [{"n": 0}]
    assert trimmed == ["aaa", "zzz"]


async def test_what_fails_for_every_namespace_is_no_trouble_of_one(world: World) -> None:
    async def embed() -> None:
        raise EmbedderUnavailable("refused")

    with pytest.raises(EmbedderUnavailable):
        await world.store.apart("aaa", embed(), None, unless=EmbedderUnavailable)


async def test_while_the_database_is_away_upkeep_ends_at_the_first_namespace(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for namespace in ("aaa", "zzz"):
        await world.keep("waits", namespace=namespace)
    tried: list[str] = []

    async def refuse_all(namespace: str, _work: object) -> None:
        tried.append(namespace)
        raise refuse(FaultCode.UNAVAILABLE, "away")

    async def away() -> DatabaseHealth:
        return DatabaseHealth("away", reads=False)

    monkeypatch.setattr(world.store, "write", refuse_all)
    monkeypatch.setattr(world.store, "health", away)
    rule = Retention("web", None, timedelta(days=1))
    keeps = Upkeep(store=world.store, unfinished=world.upkeep.unfinished, interval_s=5.0, retention=(rule,))
    with pytest.raises(EngramqError):
        await keeps.apply_retention()
    assert len(tried) == 1


async def test_old_commands_are_forgotten_and_new_ones_kept(world: World) -> None:
    old, new = assignment(StoreMemory(content="old"), idempotency_key="old"), assignment(StoreMemory(content="new"))
    for item in (old, new):
        await world.complete(item)
    world.rows("update ledger set created_at = now() - interval '8 days' where command_id = %s", old.envelope.id)
    await world.upkeep.trim()
    assert [str(row["command_id"]) for row in world.rows("select * from ledger")] == [new.envelope.id]
    assert world.count("memories") == 2


async def test_what_was_deleted_from_the_graph_long_ago_is_forgotten(world: World) -> None:
    deletions = []
    for relation in ("KNOWS", "LIKES"):
        edge = await world.ask(EdgeAdded, AddEdge(source_name="Ada", target_name="Bob", relation=relation))
        deletions.append((await world.ask(GraphDeleted, DeleteEdge(edge_id=edge.edge_id))).audit_id)
    world.rows("update deleted_graph set deleted_at = now() - interval '30 days' where deletion = %s", deletions[0])
    await world.upkeep.trim()
    assert [row["deletion"] for row in world.rows("select deletion from deleted_graph")] == deletions[1:]


async def test_messages_of_webhooks_that_nobody_took_are_forgotten_after_a_month(world: World) -> None:
    await world.keep("makes the namespace")
    world.rows(
        "with told as (insert into webhooks (tenant, id, url, events, with_content, key_id, created_by) select tenant, "
        "gen_random_uuid(), 'https://receiver.example', '{memory.stored}', false, 'x', 'ada' from namespaces "
        "returning tenant, id) "
        "insert into webhook_outbox (tenant, webhook_id, event, told, dead_at) "
        "select told.tenant, told.id, 'memory.stored', '{}', now() - make_interval(days => age) "
        "from told, unnest(array[29, 31]) age"
    )
    await world.upkeep.trim()
    assert world.rows("select now() - dead_at < '30 days' as young from webhook_outbox") == [{"young": True}]


async def test_upkeep_of_a_cluster_looks_for_no_bulk_loads_and_folds_no_totals(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has neither, and the look for them would ask all its shards."""
    names = {work.name for work in world.upkeep.schedule()}
    monkeypatch.setattr(world.store, "sharded", True)  # other tests have the same store
    assert names - {work.name for work in world.upkeep.schedule()} == {"index_loads", "fold_totals", "mend_totals"}


async def test_words_of_large_namespaces_are_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.keep("first")
    world.rows("select make_tenant('large')")
    world.rows(
        "with made as (insert into nodes (id, tenant, label, partition) "
        "select gen_random_uuid(), tenant_of('large'), 'Memory', 'trusted' from generate_series(1, 3100) returning id) "
        "insert into memories (node_id, partition, tenant, content, confidence, source, verification, state, "
        "created_by, lexemes) select id, 'trusted', tenant_of('large'), 'x', 1, 'extracted', 'unverified', 'pending', "
        "'x', to_tsvector('english', concat_ws(' ', 'common', 'w' || row_number() over (), "
        "'c' || mod(row_number() over (), 30), case when row_number() over () <= 100 then 'seldom' end)) from made"
    )
    world.rows("insert into changes (tenant, minute, backend) values (tenant_of('large'), now(), 0)")
    await world.upkeep.count_lexemes()
    written = [row["lexeme"] for row in world.rows("select lexeme from lexeme_counts order by ctid")]
    assert written == sorted(written)  # two that write them at once take turns
    await world.upkeep.count_lexemes()
    counted = world.rows("select namespace, lexeme, memories from lexeme_counts join namespaces using (tenant)")
    assert {row["namespace"] for row in counted} == {"large"}
    assert {row["lexeme"]: row["memories"] for row in counted} == {
        **{f"c{number}": 104 if 0 < number <= 10 else 103 for number in range(30)},
        "common": 3100,
        "seldom": 100,
    }


@pytest.mark.promise("OV-18")
async def test_words_of_what_was_erased_are_counted_no_longer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where so little is left that nobody would count it."""
    kept = [(await world.keep(f"The safe opens with zwetschkenknoedel {number}")).stored.id for number in range(2)]
    for name, value in (("COUNTED_FROM", 2), ("RARE", 2)):
        monkeypatch.setattr(schedule, name, value)
    grow_old(world)
    await world.upkeep.count_lexemes()
    assert world.rows("select lexeme from lexeme_counts where lexeme like '%%zwetschkenknoedel'")
    await world.ask(Forgotten, ForgetMemory(memory_id=kept[0], erase=True))
    grow_old(world)
    await world.upkeep.count_lexemes()
    assert not world.count("lexeme_counts")


async def test_what_is_imported_is_linked_after_the_load_or_when_that_takes_too_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "BETWEEN_BATCHES_S", 0.0)
    records = tuple(ImportRecord(content=f"row {number}") for number in range(3))
    await world.ask(BatchImported, ImportBatch(records=records))
    doing = Activity()
    sweep = Unfinished(store=world.store, older_than_s=0.0, activity=doing)

    async def handed_on() -> list[type]:
        return [type(item.command) for item in await sweep.look_at("default_user")]

    with doing.loading():
        assert await handed_on() == [ClassifySectors]
    assert await handed_on() == [ClassifySectors, LinkActivated]
    with doing.loading():
        monkeypatch.setattr(unfinished, "LOAD_MAX_S", 0.0)
        fresh = Unfinished(store=world.store, older_than_s=0.0, activity=doing)
        assert LinkActivated in [type(item.command) for item in await fresh.look_at("default_user")]
