"""Every command has a handler, and what the ledger makes of those that are refused or come again."""

import pytest

from engramq.schemas.commands import COMMANDS, ForgetMemory, Forgotten
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.app import HANDLERS
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.contract import OutcomeUnknown
from tests.jobs import job, repeated
from tests.refusals import refused
from tests.running import run_once


async def forget(_tx: Transaction) -> Forgotten:
    return Forgotten(status="archived", id="x")


async def test_what_was_not_applied_is_not_recorded_so_the_same_command_can_be_carried_out(store: Store) -> None:
    async def away(_tx: Transaction) -> Forgotten:
        raise refuse(FaultCode.UNAVAILABLE, "away")

    given = job(ForgetMemory(memory_id="x"))
    with refused(FaultCode.UNAVAILABLE):
        await run_once(store, given, away)
    outcome = await run_once(store, repeated(given, attempt=2), forget)
    assert isinstance(outcome.reply, Forgotten)
    assert outcome.reply.status == "archived"


async def test_a_refusal_is_final_for_its_command_however_often_that_comes(store: Store) -> None:
    async def unwilling(_tx: Transaction) -> Forgotten:
        raise refuse(FaultCode.SELF_LOOP, "no")

    given = job(ForgetMemory(memory_id="x"))
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
        await run_once(store, job(ForgetMemory(memory_id="x"), idempotency_key="k"), unwilling)
    outcome = await run_once(store, job(ForgetMemory(memory_id="x"), idempotency_key="k"), forget)
    assert not outcome.replayed
    again = await run_once(store, job(ForgetMemory(memory_id="x"), idempotency_key="k"), forget)
    assert again.replayed


async def test_what_has_begun_is_never_said_to_be_unapplied(store: Store) -> None:
    async def away(_tx: Transaction) -> Forgotten:
        raise refuse(FaultCode.UNAVAILABLE, "away")

    with pytest.raises(OutcomeUnknown):
        await run_once(store, job(ForgetMemory(memory_id="x")), away, begun=True)


def test_every_command_is_carried_out_by_one_handler_of_the_kind_that_it_names() -> None:
    found = {(kind, handler.command) for kind, handlers in HANDLERS.items() for handler in handlers}
    assert found == {(command.mailbox, command) for command in COMMANDS}
    assert sum(len(handlers) for handlers in HANDLERS.values()) == len(COMMANDS)
    assert set(HANDLERS) == set(WorkerKind)
