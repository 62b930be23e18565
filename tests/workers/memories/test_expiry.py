"""Memories that expire, by their own time or by a rule."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engramq.schemas.commands import (
    BatchImported,
    ForgetMemory,
    Forgotten,
    ImportBatch,
    ImportRecord,
    MemoryChanged,
    RestoreMemory,
    Superseded,
    SupersedeMemory,
    UpdateMemory,
)
from engramq.schemas.setting_values import Retention, parse_retention
from engramq.schemas.settings import SettingsError, read_settings
from engramq.schemas.vocabulary import OnDuplicate, ReceiptStatus
from engramq.workers.memories import change
from engramq.workers.upkeep.schedule import Upkeep
from tests.assignments import OWNER
from tests.workers.conftest import World

PAST, LATER = datetime(2024, 3, 9, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)
RULES = "source_type:research=30d, tag:scratch=12h,tag:a = b=1d"


def under(world: World, rules: str) -> Upkeep:
    """Return upkeep with these rules, under which memories are stored from now on too."""
    settings = read_settings({"ENGRAMQ_RETENTION": rules})
    world.use(settings=settings)
    return Upkeep(store=world.store, unfinished=world.upkeep.unfinished, interval_s=5.0, retention=settings.retention)


def kept(world: World) -> dict[str, Any]:
    return {row["content"]: row for row in world.rows("select * from memories")}


@pytest.mark.promise("TI-3")
async def test_upkeep_archives_what_has_expired_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change, "EXPIRED_AT_ONCE", 2)
    for number in range(5):
        await world.keep(f"gone {number}", expires_at=PAST, namespace=f"n{number % 2}")
    await world.keep("stays", expires_at=LATER, namespace="n0")
    await world.upkeep.archive_expired()
    states = {content: row["state"] for content, row in kept(world).items()}
    assert states == {**{f"gone {number}": "archived" for number in range(5)}, "stays": "active"}
    entries = world.rows("select * from audit_log where action = 'archive'")
    assert len(entries) == 5
    assert {(entry["actor"], entry["reason"], entry["old"]["state"]) for entry in entries} == {
        ("engramq", "expired", "active")
    }
    await world.upkeep.archive_expired()
    assert len(world.rows("select 1 from audit_log where action = 'archive'")) == 5


@pytest.mark.promise("TI-3")
async def test_what_upkeep_has_archived_is_restored_for_good(world: World) -> None:
    stored = (await world.keep("gone", expires_at=PAST)).stored
    await world.upkeep.archive_expired()
    restored = await world.ask(MemoryChanged, RestoreMemory(memory_id=stored.id))
    assert restored.memory is not None
    assert (restored.memory.state, restored.memory.expires_at) == ("active", None)
    await world.upkeep.archive_expired()
    assert kept(world)["gone"]["state"] == "active"


@pytest.mark.promise("TI-3")
async def test_whoever_meets_what_has_expired_first_archives_it_with_a_row(world: World) -> None:
    updated, forgotten = [(await world.keep(word, expires_at=PAST)).stored.id for word in ("updated", "forgotten")]
    await world.ask(MemoryChanged, UpdateMemory(memory_id=updated, expires_at=LATER))
    await world.ask(Forgotten, ForgetMemory(memory_id=forgotten, reason="no longer so"))
    await world.upkeep.archive_expired()
    entries = {str(item["target_id"]): item for item in world.rows("select * from audit_log where action = 'archive'")}
    assert {item: (entry["actor"], entry["reason"]) for item, entry in entries.items()} == {
        updated: ("engramq", "expired"),
        forgotten: (OWNER.name, "no longer so"),
    }
    assert {row["state"] for row in world.rows("select state from memories")} == {"archived"}


@pytest.mark.promise("TI-3")
async def test_an_update_that_changes_nothing_archives_nothing_that_has_expired(world: World) -> None:
    memory_id = (await world.keep("gone", expires_at=PAST, thread="days")).stored.id
    rows = world.rows("select * from memories")
    reply = await world.ask(MemoryChanged, UpdateMemory(memory_id=memory_id, expires_at=PAST, thread="days"))
    assert reply.notice == "It is unchanged: it says all of this already."
    assert (world.rows("select * from memories"), world.rows("select * from audit_log")) == (rows, [])
    assert reply.memory is not None
    assert reply.memory.state == "archived"


@pytest.mark.promise("TI-3", "OV-6")
async def test_the_audit_names_what_an_expiry_leaves_hidden(world: World) -> None:
    old, new = [(await world.keep(word)).stored.id for word in ("old", "new")]
    await world.ask(Superseded, SupersedeMemory(old_memory_id=old, new_memory_id=new))
    await world.ask(MemoryChanged, UpdateMemory(memory_id=new, expires_at=PAST))
    await world.upkeep.archive_expired()
    (entry,) = world.rows("select * from audit_log where action = 'archive'")
    assert (str(entry["target_id"]), entry["new"]["still_hidden"]) == (new, [old])


@pytest.mark.promise("TI-4")
async def test_a_rule_gives_new_memories_a_time(world: World) -> None:
    under(world, RULES)
    now = datetime.now(UTC)
    for content, fields in (
        ("research", {"source_type": "research"}),
        ("scratch", {"tags": ("tall", "scratch")}),
        ("both", {"source_type": "research", "tags": ("scratch",)}),
        ("its own", {"tags": ("scratch",), "expires_at": LATER}),
        ("neither", {"source_type": "task_outcome", "tags": ("scratchy",)}),
        ("an odd tag", {"tags": ("a = b",)}),
    ):
        await world.keep(content, **fields)
    periods = {
        content: row["expires_at"] and round((row["expires_at"] - now) / timedelta(hours=1))
        for content, row in kept(world).items()
        if content != "its own"
    }
    assert periods == {"research": 720, "scratch": 12, "both": 12, "neither": None, "an odd tag": 24}
    assert kept(world)["its own"]["expires_at"] == LATER


@pytest.mark.promise("TI-4")
async def test_a_rule_gives_imported_and_older_memories_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change, "EXPIRED_AT_ONCE", 2)
    for number in range(5):
        await world.keep(f"old {number}", tags=("scratch",))
    await world.keep("old research", source_type="research")
    await world.keep("old scratch of research", source_type="research", tags=("scratch",))
    await world.keep("its own", tags=("scratch",), expires_at=LATER)
    await world.keep("untouched")
    upkeep = under(world, RULES)
    records = (ImportRecord(content="imported", tags=("scratch",)),)
    await world.ask(BatchImported, ImportBatch(records=records))
    await upkeep.apply_retention()
    rows = kept(world)
    soon = datetime.now(UTC) + timedelta(hours=13)
    assert {content for content, row in rows.items() if row["expires_at"] is None} == {"untouched"}
    assert {content for content, row in rows.items() if row["expires_at"] and row["expires_at"] < soon} == {
        "imported", "old scratch of research", *(f"old {number}" for number in range(5))
    }  # fmt: skip
    assert rows["its own"]["expires_at"] == LATER
    assert {row["state"] for row in rows.values()} == {"active"}


@pytest.mark.promise("TI-1", "TI-7")
async def test_an_import_takes_times_and_refuses_an_update_that_goes_backwards(world: World) -> None:
    may, june, july = (datetime(2023, month, 10, tzinfo=UTC) for month in (5, 6, 7))

    async def brought_in(**fields: Any) -> tuple[ReceiptStatus, Any]:
        records = (ImportRecord(content="In May", external_id="a", **fields),)
        command = ImportBatch(records=records, on_duplicate=OnDuplicate.UPDATE)
        (receipt,) = (await world.ask(BatchImported, command)).receipts
        return receipt.status, receipt.field

    assert (await brought_in(valid_from=may, valid_until=june))[0] is ReceiptStatus.STORED
    assert await brought_in(valid_from=july) == (ReceiptStatus.REJECTED, "valid_until")
    assert (await brought_in(valid_from=may, valid_until=june))[0] is ReceiptStatus.SKIPPED
    assert (await brought_in(valid_from=july, valid_until=LATER))[0] is ReceiptStatus.UPDATED
    row = kept(world)["In May"]
    assert (row["valid_from"], row["valid_until"]) == (july, LATER)
    assert (await brought_in(expires_at=PAST))[0] is ReceiptStatus.UPDATED
    assert (await brought_in(confidence=0.5))[0] is ReceiptStatus.UPDATED
    assert kept(world)["In May"]["state"] == "archived", "an import brings back nothing that has expired"


def test_rules_are_read() -> None:
    assert parse_retention("") == ()
    assert parse_retention(RULES) == (
        Retention(None, "scratch", timedelta(hours=12)),
        Retention(None, "a = b", timedelta(days=1)),
        Retention("research", None, timedelta(days=30)),
    )
    for wrong in ("research=30d", "tag:=3d", "tag: =3d", "tag:x=0d", "tag:x=3", "tag:x=3w", "tag:x", "tag:x=999999d"):
        with pytest.raises(SettingsError, match="ENGRAMQ_RETENTION"):
            read_settings({"ENGRAMQ_RETENTION": wrong})
