"""Send an operator's commands over the queue without a gateway, and tell the queue's health.

This is the entry of `deploy` into this package; no agent comes this way.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal

from engramq.gateway.identity.authorization import settings_caller
from engramq.gateway.overview import overview_of
from engramq.gateway.queue.bus import Bus, Unanswered, open_bus
from engramq.gateway.queue.look import NoLook, look_at_mailboxes, missing_rights
from engramq.schemas.checks import Check, CheckName, Health, health_of, merged
from engramq.schemas.codec import fault_body, reply_body
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.commands import AnyCommand, Command, GetCommand
from engramq.schemas.connection import UnsupportedServer, lanes_of, let_tls_end
from engramq.schemas.envelope import Answer, Principal
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.fields import compose_letters
from engramq.schemas.server_checks import redis_check
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES, Status, WorkerKind

READ_S: Final = 120.0  # that a read waits behind batches of an import
WRITE_S: Final = 2.0  # after which a write is asked after instead

C = TypeVar("C", bound=Command)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QueueCalls:
    """Carries out calls in the name of the operator, who may do everything; any thread may call.

    `project`: of calls that name none. `write_s`: how long a write is waited for before it is pending.
    """

    portal: BlockingPortal
    bus: Bus
    namespace: str
    principal: str
    project: str
    write_s: float

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a gateway would reply to this call, refusals included; `tool` is the name of any command.

        Raises BusFailed.
        """
        given = {name: value for name, value in arguments.items() if name not in _OF_CALLS}
        command: Command = msgspec.convert({**given, "type": tool}, AnyCommand)
        try:
            answer = self.portal.call(partial(self._ask, command, arguments.get("idempotency_key")))
        except EngramqError as refused:
            self.bus.check()
            return fault_body(refused.fault)
        if isinstance(answer, Unanswered):
            return {"status": Status.PENDING.value, "command_id": answer.command_id}
        if answer.fault is not None:
            return fault_body(answer.fault)
        assert answer.reply is not None
        return reply_body(answer.reply)

    async def _ask(self, command: Command, key: str | None) -> Answer | Unanswered:
        return await self.bus.ask(
            command,
            namespace=self.namespace,
            principal=Principal(name=self.principal, scopes=ALL_SCOPES),
            idempotency_key=key,
            project=self.project,
            timeout_s=self.write_s if command.write else None if isinstance(command, GetCommand) else READ_S,
        )


_OF_CALLS: Final = frozenset({"idempotency_key", "max_chars"})


@contextmanager
def open_queue(
    settings: Settings, namespace: str, project: str = "", write_s: float | None = None
) -> Iterator[QueueCalls]:
    """Within the block calls are carried out, as the principal of the settings; raises CommandFailed.

    A thread of its own has the event loop, so that the caller may wait and be interrupted.
    """
    try:
        with start_blocking_portal(backend_options=_LOOP) as portal:
            try:
                with portal.wrap_async_context_manager(open_bus(settings)) as bus:
                    yield QueueCalls(
                        portal, bus, namespace, settings.principal, project, WRITE_S if write_s is None else write_s
                    )
            finally:
                portal.call(let_tls_end)
    except UnsupportedServer as problem:
        raise CommandFailed(str(problem)) from None


_LOOP: Final = {"use_uvloop": os.name != "nt"}


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` in a loop of its own; raises CommandFailed when Redis is not fit."""

    async def whole() -> T:
        try:
            return await work()
        finally:
            with anyio.CancelScope(shield=True):
                await let_tls_end()

    try:
        return anyio.run(whole, backend_options=_LOOP)
    except UnsupportedServer as problem:
        raise CommandFailed(str(problem)) from None


def checked_command(given: Mapping[str, Any], kind: type[C]) -> C:
    """Return the command with these fields; raises CommandFailed naming what is wrong."""
    try:
        command = msgspec.convert({name: compose_letters(value) for name, value in given.items()}, kind)
        command.check()
    except msgspec.ValidationError as problem:
        raise CommandFailed(f"{problem}.", ExitCode.MISUSED) from None
    except EngramqError as problem:
        advice = problem.fault.recovery.removeprefix(FaultCode.INVALID_PARAMETER.recovery)
        raise CommandFailed(f"{problem.fault.error} {advice}".strip(), ExitCode.MISUSED) from None
    return command


def overview(settings: Settings) -> Health:
    """Return how the installation at `settings.redis_url` is, within about 8 s."""
    logging.getLogger("engramq").addHandler(logging.NullHandler())  # what is wrong is told by the checks
    return run(partial(_overview, settings))


def redis_alone(settings: Settings) -> Check:
    """Check that Redis answers and takes writes, within about 4 s; no worker is asked."""
    return run(partial(_redis_alone, settings))


async def living_workers(settings: Settings, kind: WorkerKind) -> int | None:
    """Return how many workers of a kind live; None where Redis is away, 1 where it refuses to say."""
    try:
        look = await look_at_mailboxes(lanes_of(settings))
    except NoLook as problem:
        return 1 if str(problem) else None
    return next(mailbox.workers for mailbox in look.mailboxes if mailbox.kind is kind)


async def _redis_alone(settings: Settings) -> Check:
    lanes = lanes_of(settings)
    try:
        look = await look_at_mailboxes(lanes)
        refused = look.refused or await missing_rights(lanes)
    except NoLook as problem:
        return redis_check(str(problem), answers=False)
    return redis_check(refused or look.away, answers=not refused)


async def _overview(settings: Settings) -> Health:
    try:
        async with open_bus(settings) as bus:
            found = await overview_of(bus, settings_caller(settings))
    except UnsupportedServer as problem:
        checks = [redis_check(str(problem), answers=False)]
        return health_of(checks)
    try:
        missing = await missing_rights(lanes_of(settings))
    except NoLook:
        return found  # the look has said why
    if not missing:
        return found
    cut_off = any(check.name == CheckName.REDIS and check.state == "failed" for check in found.checks)
    checks = merged([redis_check(missing, answers=not cut_off), *found.checks])  # of two as bad the first counts
    return health_of(checks, found.mailboxes, found.clocks)
