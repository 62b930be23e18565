"""Every command has a handler, and what the ledger makes of those that are refused or come again."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from engramq.schemas.commands import COMMANDS, CommandReport, ForgetMemory, Forgotten, GetCommand, ReclassifySector
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE, WorkerKind
from engramq.workers.app import HANDLERS
from engramq.workers.db import ledger
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.contract import ResultUnknown
from tests.assignments import assignment, repeated
from tests.refusals import refused
from tests.running import run_once, runner


async def forget(_tx: Transaction) -> Forgotten:
    return Forgotten(status="archived", id="x")


async def test_what_was_not_applied_is_not_recorded_so_the_same_command_can_be_carried_out(store: Store) -> None:
    async def away(_tx: Transaction) -> Forgotten:
        raise refuse(FaultCode.UNAVAILABLE, "away")

    given = assignment(ForgetMemory(memory_id="x"))
    with refused(FaultCode.UNAVAILABLE):
        await run_once(store, given, away)
    outcome = await run_once(store, repeated(given, attempt=2), forget)
    assert isinstance(outcome.reply, Forgotten)
    assert outcome.reply.status == "archived"


async def test_a_refusal_is_final_for_its_command_however_often_that_comes(store: Store) -> None:
    async def unwilling(_tx: Transaction) -> Forgotten:
        raise refuse(FaultCode.SELF_LOOP, "no")

    given = assignment(ForgetMemory(memory_id="x"))
    with refused(FaultCode.SELF_LOOP):
        await run_once(store, given, unwilling)
    for again in (repeated(given), repeated(given, attempt=2), repeated(given, attempt=3)):
        with refused(FaultCode.SELF_LOOP) as faults:
            await run_once(store, again, forget)
        assert faults[0].command_id == given.envelope.id


async def test_a_refused_key_may_be_used_again(store: Store) -> None:
    async def unwilling(_tx: Transaction) -> Forgotten:
        raise refuse(FaultCode.SELF_LOOP, "no")

    with refused(FaultCode.SELF_LOOP):
        await run_once(store, assignment(ForgetMemory(memory_id="x"), idempotency_key="k"), unwilling)
    outcome = await run_once(store, assignment(ForgetMemory(memory_id="x"), idempotency_key="k"), forget)
    assert not outcome.replayed
    again = await run_once(store, assignment(ForgetMemory(memory_id="x"), idempotency_key="k"), forget)
    assert again.replayed


async def test_what_has_begun_is_never_said_to_be_unapplied(store: Store) -> None:
    async def away(_tx: Transaction) -> Forgotten:
        raise refuse(FaultCode.UNAVAILABLE, "away")

    with pytest.raises(ResultUnknown):
        await run_once(store, assignment(ForgetMemory(memory_id="x")), away, begun=True)


@pytest.mark.parametrize(
    ("command", "reply", "code", "instead"),
    [
        (
            "propose_reclassification",
            {"type": "proposed", "proposal_id": uuid7(), "expires_at": "2026-11-20T00:00:00Z"},
            FaultCode.INVALID_PARAMETER,
            "reclassify_memory_sector",
        ),
        (
            "reclassify_memory_sector",
            {"type": "reclassified", "status": "consent_required", "proposal_id": None, "expires_at": None},
            FaultCode.INTERNAL,
            "Its effect stands.",
        ),
    ],
)
async def test_an_answer_in_a_form_of_before_is_a_refusal_that_names_the_way_of_now(
    store: Store, command: str, reply: dict[str, Any], code: FaultCode, instead: str
) -> None:
    given = assignment(ReclassifySector(source_name="a", target_name="b", relation="r", new_sector="episodic"))
    former = msgspec.json.encode({"id": given.envelope.id, "reply": reply}).decode()
    await store.write(DEFAULT_NAMESPACE, lambda tx: ledger.keep(tx, given.envelope, former))
    rename = b"update ledger set command = %(command)s where tenant = %(tenant)s and command_id = %(command_id)s"
    row = {"command": command, "command_id": UUID(given.envelope.id)}
    await store.write(DEFAULT_NAMESPACE, lambda tx: tx.send(rename, **row))
    report = (await runner(store).run(assignment(GetCommand(command_id=given.envelope.id)))).reply
    assert isinstance(report, CommandReport)
    assert report.status == "failed"
    assert report.reply is not None
    assert (report.reply["code"], report.reply["command_id"]) == (code, given.envelope.id)
    assert command in report.reply["error"]
    assert instead in report.reply["recovery"]
    with refused(code) as faults:
        await runner(store).run(repeated(given, attempt=2))
    assert instead in faults[0].recovery


def test_every_command_is_carried_out_by_one_handler_of_the_kind_that_it_names() -> None:
    found = {(kind, handler.command) for kind, handlers in HANDLERS.items() for handler in handlers}
    assert found == {(command.mailbox, command) for command in COMMANDS}
    assert sum(len(handlers) for handlers in HANDLERS.values()) == len(COMMANDS)
    assert set(HANDLERS) == set(WorkerKind)
