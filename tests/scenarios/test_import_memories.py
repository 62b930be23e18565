"""import_memories: rows are safe when it answers, bad ones are receipts, and the rest follows in the background."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import Scope, WorkerKind
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import Vectors
from tests.conftest import Database
from tests.gateway.test_redaction import GITHUB
from tests.scenarios.stage import (
    LEGACY,
    MODERN,
    Agent,
    Stage,
    agent_of,
    running_workers,
    staged,
    until,
)

ROWS = 1_000
# A row that is refused, and the field that its receipt names.
BAD: dict[int, tuple[Any, str]] = {
    0: ({"content": " "}, "content"),
    7: ("no object", "records"),
    99: ({"content": "x", "confidence": "heavy"}, "confidence"),
    100: ({"speaker": "Ada"}, "content"),
    500: ({"content": "x", "colour": "red"}, "colour"),
    501: ({"content": "x", "valid_from": "2026-02-01", "valid_until": "2026-01-01"}, "valid_until"),
    502: ({"content": "x", "project": "*"}, "project"),
    503: ({"content": "a\0b"}, "content"),
    998: ({"content": "x", "source_type": "research", "partition": "trusted"}, "partition"),
    999: (None, "records"),
}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let the model embed memories, though not questions, only while the event is set."""
    works, embed = asyncio.Event(), HashEmbedder.embed

    async def held(self: HashEmbedder, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        if not questions:
            await works.wait()
        return await embed(self, texts, questions=questions)

    monkeypatch.setattr(HashEmbedder, "embed", held)
    works.set()
    return works


def crates(count: int = ROWS) -> list[Any]:
    return [BAD[n][0] if n in BAD else {"content": f"Crate {n} came by rail", "position": n} for n in range(count)]


async def receipts_of(agent: Agent, accepted: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the receipts of an import, one for each row in order."""
    report = await agent.call("get_command", command_id=accepted["command_id"])
    assert report["status"] == "done", report
    reply = report["reply"]
    assert reply["status"] == "accepted"
    assert (reply["accepted"], reply["rejected"]) == (accepted["accepted"], accepted["rejected"])
    receipts: list[dict[str, Any]] = reply["receipts"]
    assert [receipt["index"] for receipt in receipts] == list(range(len(receipts)))
    return receipts


def statuses(receipts: list[dict[str, Any]]) -> list[str]:
    return [receipt["status"] for receipt in receipts]


def pending(database: Database) -> int:
    return int(database.rows("select count(*) as n from memories where state = 'pending'")[0]["n"])


@pytest.mark.long
@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_thousand_rows_are_safe_whatever_the_model_and_bad_ones_are_receipts(
    stage: Stage, database: Database, model: asyncio.Event, era: str
) -> None:
    model.clear()
    async with agent_of(await stage.gateway(), era=era) as agent:
        body = await agent.call("import_memories", records=crates())
        at_once = body.pop("rejected_rows")
        assert body == {
            "status": "accepted",
            "command_id": body["command_id"],
            "accepted": ROWS - len(BAD),
            "rejected": len(BAD),
        }
        receipts = await receipts_of(agent, body)
        assert len(receipts) == ROWS
        refused = {receipt["index"]: receipt["field"] for receipt in receipts if receipt["status"] == "rejected"}
        assert refused == {index: field for index, (_, field) in BAD.items()}
        assert [(row["index"], row["field"]) for row in at_once] == list(refused.items())[: len(at_once)]
        assert all(receipt["error"] for receipt in receipts if receipt["status"] == "rejected")
        stored = {receipt["index"]: receipt["memory_id"] for receipt in receipts if receipt["status"] == "stored"}
        assert len(set(stored.values())) == ROWS - len(BAD)
        assert pending(database) == ROWS - len(BAD)
        hits = await agent.search("Crate 77 came by rail", limit=1)
        assert [(item["id"], item["state"]) for item in hits] == [(stored[77], "pending")]

        model.set()
        await until(lambda: _none_pending(database), 60.0)
        (hit, *_) = await agent.search("Crate 77 came by rail", ranking="similarity")
        assert (hit["id"], hit["state"]) == (stored[77], "active")


async def _none_pending(database: Database) -> bool:
    return pending(database) == 0


async def test_the_same_key_gives_the_same_and_another_request_is_a_conflict(agent: Agent, database: Database) -> None:
    rows = [{"content": "tea"}, {"content": ""}, {"content": "coffee"}]
    first = await agent.call("import_memories", records=rows, idempotency_key="k")
    again = await agent.call("import_memories", records=rows, idempotency_key="k", on_duplicate="skip")
    assert again == first
    other = await agent.call("import_memories", records=rows[:1], idempotency_key="k")
    assert other["code"] == "idempotency_conflict"
    assert database.rows("select count(*) as n from memories")[0]["n"] == 2
    assert statuses(await receipts_of(agent, first)) == ["stored", "rejected", "stored"]


@pytest.mark.long
async def test_an_update_of_the_content_is_found_by_words_at_once_and_embedded_anew(
    agent: Agent, database: Database, model: asyncio.Event
) -> None:
    changed = await agent.store("Ada likes coffee", external_id="a", sector="emotional", metadata={"cups": 3})
    same = await agent.store("Bob likes water", external_id="b")
    model.clear()
    rows = [
        {"content": "Ada likes green tea", "external_id": "a", "sector": "semantic", "metadata": {"pots": 1}},
        {"content": "Bob likes water", "external_id": "b", "speaker": "Bob"},
        {"content": "Cleo likes juice", "external_id": "c"},
        {"content": "Cleo likes cocoa", "external_id": "c"},
    ]
    skipped = await agent.call("import_memories", records=rows[:2])
    assert (skipped["accepted"], skipped["rejected"]) == (2, 0)
    assert statuses(await receipts_of(agent, skipped)) == ["skipped", "skipped"]

    receipts = await receipts_of(agent, await agent.call("import_memories", records=rows, on_duplicate="update"))
    assert statuses(receipts) == ["updated", "updated", "stored", "updated"]
    assert [receipt["memory_id"] for receipt in receipts[:2]] == [changed["id"], same["id"]]
    (hit, *_) = await agent.search("green tea", limit=1)
    assert (hit["id"], hit["state"], hit["sector"]) == (changed["id"], "pending", "emotional")
    assert hit["metadata"] == {"cups": 3, "pots": 1}
    kept = (await agent.call("get_memory", memory_id=same["id"]))["memory"]
    assert (kept["state"], kept["speaker"]) == ("active", "Bob"), "its vector is of the same content"

    model.set()
    await until(lambda: _none_pending(database))
    (hit, *_) = await agent.search("Ada likes green tea", ranking="similarity")
    assert hit["id"] == changed["id"]
    assert hit["similarity"] > 0.99


@asynccontextmanager
async def worker_process(settings: Settings) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run a worker that takes imports in a process of its own."""
    given = {"DATABASE_URL": settings.database_url, "REDIS_URL": settings.redis_url, "KEY_PREFIX": settings.key_prefix}
    environment = (
        os.environ | {f"ENGRAMQ_{name}": value for name, value in given.items()} | {"ENGRAMQ_EMBEDDER": "hash"}
    )
    process = subprocess.Popen([sys.executable, "-m", "engramq", "worker", "imports"], env=environment)
    try:
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)


@pytest.mark.long
@pytest.mark.own_database
@pytest.mark.parametrize("committed", [False, True], ids=["before the commit", "after it"])
async def test_a_killed_worker_leaves_all_or_nothing_and_the_same_key_brings_all_in_once(
    settings: Settings, database: Database, committed: bool
) -> None:
    rows = [{"content": f"Barrel {number}"} for number in range(300)]
    others = tuple(kind for kind in WorkerKind if kind is not WorkerKind.IMPORTS)
    async with (
        staged(settings, workers=False) as stage,
        running_workers(settings, *others),
        agent_of(await stage.gateway()) as agent,
        await psycopg.AsyncConnection.connect(database.owner_url) as owner,
    ):
        async with worker_process(settings) as process:
            await owner.execute(_WAIT)
            await owner.execute(_AT_THE_END)
            await owner.commit()
            await owner.execute("select pg_advisory_xact_lock(4711)")
            first = asyncio.create_task(agent.call("import_memories", records=rows, idempotency_key="once"))
            await until(lambda: _waiting(database), 40.0)
            process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(process.wait)
        if not committed:  # else the server does what it was sent, the commit too
            await owner.execute("select pg_terminate_backend(pid) from pg_locks where objid = 4711 and not granted")
            await until(lambda: _waiting(database, somebody=False))
        await owner.rollback()
        await owner.execute("drop function wait_here cascade")  # waits for the transaction that goes on
        await owner.commit()
        assert database.rows("select count(*) as n from memories")[0]["n"] == (len(rows) if committed else 0)
        async with running_workers(settings, WorkerKind.IMPORTS):
            again = await agent.call("import_memories", records=rows, idempotency_key="once")
            assert (again["status"], again["accepted"]) == ("accepted", len(rows))
            body = await first
        assert body["status"] in {"accepted", "pending"}
        kept = database.rows("select node_id::text as id from memories")
        receipts = await receipts_of(agent, again)
        assert sorted(item["id"] for item in kept) == sorted(receipt["memory_id"] for receipt in receipts)
        await until(lambda: _none_pending(database), 60.0)


_WAIT = """
    create function wait_here() returns trigger language plpgsql as
    $$ begin perform pg_advisory_xact_lock(4711); return new; end $$
"""
# Once the rows are written, when the ledger is to keep the answer.
_AT_THE_END = "create trigger wait_here before update on ledger for each row execute function wait_here()"


async def _waiting(database: Database, *, somebody: bool = True) -> bool:
    found = database.rows("select 1 from pg_locks where locktype = 'advisory' and objid = 4711 and not granted")
    return bool(found) is somebody


@pytest.mark.promise("TP-28")
async def test_to_vouch_takes_the_scope_in_each_row(stage: Stage) -> None:
    writer = (Scope.READ, Scope.WRITE)
    rows = [{"content": "one", "verification": "verified"}, {"content": "two", "verification": "unverified"}]
    async with agent_of(await stage.gateway(), principal="w", scopes=writer) as agent:
        receipts = await receipts_of(agent, await agent.call("import_memories", records=rows))
        assert [receipt.get("field") for receipt in receipts] == ["verification", None]
        assert "'verify'" in receipts[0]["error"]


async def test_an_untrusted_principal_brings_in_what_is_kept_apart_and_changes_only_its_own(stage: Stage) -> None:
    service = await stage.gateway()
    async with agent_of(service) as owner, agent_of(service, principal="crawler", untrusted=True) as crawler:
        trusted = await owner.store("The door is locked", external_id="t")
        research = await owner.store("The web says so", external_id="r", source_type="research")
        rows = [
            {"content": "The door is open", "external_id": "t"},
            {"content": "The web says otherwise", "external_id": "r"},
            {"content": "A page", "external_id": "p"},
            {"content": "Trust me", "partition": "trusted"},
            {"content": "Trust me", "verification": "approved"},
        ]
        body = await crawler.call("import_memories", records=rows, on_duplicate="update")
        assert (body["accepted"], body["rejected"]) == (1, 4)
        assert "until somebody else vouches" in body["notice"]
        receipts = await receipts_of(crawler, body)
        assert [receipt.get("field") for receipt in receipts] == [
            "external_id", "external_id", None, "partition", "verification",
        ]  # fmt: skip
        for memory in (trusted, research):
            found = await owner.call("get_memory", memory_id=memory["id"], include_untrusted=True)
            assert found["memory"]["content"] == memory["content"]
        page = receipts[2]["memory_id"]
        own = await crawler.call(
            "import_memories", records=[{"content": "A page, anew", "external_id": "p"}], on_duplicate="update"
        )
        assert statuses(await receipts_of(crawler, own)) == ["updated"]
        await owner.call("verify_memory", memory_id=page, verification="verified")
        late = {"content": "A page, anew", "external_id": "p", "speaker": "the boss"}
        body = await crawler.call("import_memories", records=[late], on_duplicate="update")
        assert body["rejected"] == 1, "nobody vouched for that"


async def test_a_row_that_says_nothing_of_who_sees_it_changes_a_private_memory_and_leaves_it_so(agent: Agent) -> None:
    private = await agent.store("Mobile builds need Xcode 16", external_id="n1", visibility="private")
    shared = await agent.store("Mobile builds run at night", external_id="n2")
    row = {"content": "Mobile builds need Xcode 17", "external_id": "n1"}
    others = [{**row, "visibility": "shared"}, {"content": "x", "external_id": "n2", "visibility": "private"}]
    receipts = await receipts_of(
        agent, await agent.call("import_memories", records=[row, *others], on_duplicate="update")
    )
    assert statuses(receipts) == ["updated", "rejected", "rejected"]
    assert [each["error"].rpartition(": ")[2] for each in receipts[1:]] == [
        'say visibility="private" in it.',
        'say visibility="shared" in it.',
    ]
    kept = [(await agent.call("get_memory", memory_id=each["id"]))["memory"] for each in (private, shared)]
    assert [each["content"] for each in kept] == [row["content"], shared["content"]]
    assert kept[0]["visibility"] == "private"


async def test_of_a_shared_and_a_private_memory_with_one_external_id_a_row_changes_the_one_that_it_would_be(
    agent: Agent,
) -> None:
    shared = await agent.store("Mobile builds run at night", external_id="n1")
    private = await agent.store("Mobile builds annoy me", external_id="n1", visibility="private")
    records: list[dict[str, Any]] = [
        {"content": "Mobile builds run at noon", "external_id": "n1"},
        {"content": "Mobile builds please me", "external_id": "n1", "visibility": "private"},
    ]
    receipts = await receipts_of(agent, await agent.call("import_memories", records=records, on_duplicate="update"))
    assert [each["memory_id"] for each in receipts] == [shared["id"], private["id"]]
    kept = [(await agent.call("get_memory", memory_id=each["id"]))["memory"] for each in (shared, private)]
    assert [each["content"] for each in kept] == [row["content"] for row in records]


async def test_rows_that_the_router_keeps_apart_are_told_of(agent: Agent) -> None:
    said = [{"content": "said so", "source_type": "research", "partition": "untrusted"}]
    assert "notice" not in await agent.call("import_memories", records=said)
    body = await agent.call("import_memories", records=[{"content": "routed", "source_type": "research"}])
    assert "Kept apart" in body["notice"]
    assert body["kept_apart"] == 1


async def test_secrets_are_left_out_row_by_row(agent: Agent, database: Database) -> None:
    rows = [
        {"content": f"Ada deploys with {GITHUB}", "metadata": {"token": GITHUB}},
        {"content": "Bob", "sector": GITHUB},
        {"content": "x" * 32_700 + f" {GITHUB}"[:68], "external_id": "long"},
        {"content": "Cleo"},
    ]
    body = await agent.call("import_memories", records=rows)
    assert body["rejected"] == 1
    assert body["notice"].endswith("each marked in its place: 3.")
    receipts = await receipts_of(agent, body)
    assert statuses(receipts) == ["stored", "rejected", "stored", "stored"]
    kept = [row["content"] for row in database.rows("select content from memories")]
    assert "Ada deploys with [redacted: GitHub Token]" in kept
    assert GITHUB not in str(kept)
    assert GITHUB not in str(database.rows("select answer::text from ledger"))


async def test_who_may_only_write_learns_how_many_were_accepted(stage: Stage) -> None:
    rows = [{"content": "tea"}, {"content": ""}]
    for era in (LEGACY, MODERN):
        async with agent_of(await stage.gateway(), principal="w", scopes=(Scope.WRITE,), era=era) as agent:
            body = await agent.call("import_memories", records=rows)
            assert (body["accepted"], body["rejected"]) == (1, 1)
