"""Send an operator's commands over the queue without a gateway, and tell the queue's health.

This is the entry of `deploy` into this package; no agent comes this way.
"""

import logging
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import anyio
import msgspec

from engramq.gateway.identity.authorization import settings_caller
from engramq.gateway.overview import Health, overview_of, redis_check, whole_health_in
from engramq.gateway.queue.bus import Bus, Pending, open_bus
from engramq.gateway.queue.look import NoLook, look_at, missing_rights
from engramq.schemas.checks import Check, CheckName, InstallationState, merged, status_of
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.commands import AnyReply, Command, CommandReport, GetCommand, Reply, Tool
from engramq.schemas.connection import UnsupportedServer, lanes_of, let_tls_end
from engramq.schemas.envelope import Answer, Principal
from engramq.schemas.faults import NOT_APPLIED, EngramqError, Fault, FaultCode, refuse
from engramq.schemas.fields import composed
from engramq.schemas.ids import uuid7
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES, CommandStatus, Status

ANSWER_TIMEOUT_S: Final = 20.0  # after which a command is asked after instead
READ_TIMEOUT_S: Final = 120.0  # of one behind batches of an import
INSIST_TIMEOUT_S: Final = 60.0
GIVE_UP_S: Final = 300.0  # how long one batch is tried again while the service is away or overloaded
NOT_DONE: Final = "See `engramq status`: is a worker running?"
ASK_AGAIN_S: Final = 1.0
PROGRESS_S: Final = 5.0
TRIES: Final = 3  # of asking for the answer of what has ended, each READ_TIMEOUT_S long
ENDED: Final = (CommandStatus.DONE, CommandStatus.FAILED, CommandStatus.UNKNOWN)

R = TypeVar("R", bound=Reply)
C = TypeVar("C", bound=Command)
T = TypeVar("T")

Outcome: TypeAlias = Answer | Pending


class Asker(ABC):
    """Asks in the name of the operator, who may do everything in one namespace."""

    @abstractmethod
    async def ask(self, command: Command, timeout_s: float | None = None, key: str | None = None) -> Outcome:
        """Ask once, a read for `timeout_s`; with a `key` what was done for it already is not done again."""

    async def run(self, command: Command, kind: type[R], *, progress: Callable[[], Awaitable[None]] | None = None) -> R:
        """Return the reply, however long it takes; raises EngramqError.

        `progress` is called now and then while it takes long.
        """
        timeout_s = ANSWER_TIMEOUT_S if progress is None else ASK_AGAIN_S
        key = uuid7() if command.write else None
        return _reply_in(await self._answer(command, timeout_s, key, progress=progress), kind)

    async def read(self, command: Command, kind: type[R]) -> R:
        """Return the reply of a read that has to wait for its turn; raises EngramqError."""
        return _reply_in(await self._answer(command, READ_TIMEOUT_S), kind)

    async def insist(self, command: Command, key: str) -> Answer:
        """Ask again while the service is overloaded or away: the key has it done once only; raises EngramqError."""
        give_up = time.monotonic() + GIVE_UP_S
        while True:
            try:
                answer = await self._answer(command, INSIST_TIMEOUT_S, key, give_up)
                if answer.fault is None or answer.fault.code not in NOT_APPLIED:
                    return answer
                fault = answer.fault
            except EngramqError as refused:
                fault = refused.fault
            if fault.code not in NOT_APPLIED or time.monotonic() > give_up:
                raise EngramqError(fault)
            await anyio.sleep(pause_s(fault))

    async def _answer(
        self,
        command: Command,
        timeout_s: float,
        key: str | None = None,
        give_up: float = math.inf,
        progress: Callable[[], Awaitable[None]] | None = None,
    ) -> Answer:
        """Return the answer, of a write that outlives our patience the stored one, which is ours by its key."""
        for _ in range(TRIES):
            if isinstance(outcome := await self.ask(command, timeout_s, key), Answer):
                return outcome
            if (fault := await self._fault_at_end(outcome.command_id, give_up, progress)) is not None:
                return Answer(id=outcome.command_id, fault=fault)  # asked again by its key it would be tried anew
            timeout_s = READ_TIMEOUT_S
        raise refuse(FaultCode.UNAVAILABLE, "A command was taken, but its answer did not come.", recovery=NOT_DONE)

    async def _fault_at_end(
        self, command_id: str, give_up: float, progress: Callable[[], Awaitable[None]] | None
    ) -> Fault | None:
        """Wait until a command has ended and return why it failed, if it has."""
        progress_at = heard_at = time.monotonic()
        while True:
            try:
                report = _reply_in(await self.ask(GetCommand(command_id=command_id)), CommandReport)
            except EngramqError as refused:
                is_late = time.monotonic() > min(give_up, heard_at + GIVE_UP_S)
                if is_late or refused.fault.code not in NOT_APPLIED:
                    raise
            else:
                heard_at = time.monotonic()
                if report.status is CommandStatus.FAILED:
                    return msgspec.convert(report.reply, Fault)
                if report.status in ENDED:
                    return None
            if time.monotonic() > give_up:
                raise refuse(FaultCode.UNAVAILABLE, "A batch was taken, but not done in time.", recovery=NOT_DONE)
            if progress is not None and time.monotonic() > progress_at + PROGRESS_S:
                progress_at = time.monotonic()
                await progress()
            await anyio.sleep(ASK_AGAIN_S)


@dataclass(frozen=True, slots=True)
class QueueAsker(Asker):
    """Asks by the queue. `project`: of what names none."""

    bus: Bus
    namespace: str
    principal: str
    project: str = ""

    async def ask(self, command: Command, timeout_s: float | None = None, key: str | None = None) -> Outcome:
        """Ask once; with a `key` what was done for it already is not done again."""
        return await self.bus.ask(
            command,
            namespace=self.namespace,
            principal=Principal(name=self.principal, scopes=ALL_SCOPES),
            idempotency_key=key,
            project=self.project,
            timeout_s=timeout_s,
        )


@asynccontextmanager
async def open_asker(settings: Settings, namespace: str, project: str = "") -> AsyncIterator[QueueAsker]:
    """Yield what asks in one namespace, as the principal of the settings."""
    async with open_bus(settings) as bus:
        yield QueueAsker(bus, namespace, settings.principal, project)


def pause_s(fault: Fault) -> float:
    """Return after how long a refusal says to try again."""
    return fault.retry_after_s if isinstance(fault.retry_after_s, float) else ASK_AGAIN_S


def _reply_in(answer: Outcome, kind: type[R]) -> R:
    assert isinstance(answer, Answer)  # a read is never pending
    if answer.fault is not None:
        raise EngramqError(answer.fault)
    assert isinstance(answer.reply, kind)
    return answer.reply


def outcome_of(tool: Tool, body: Mapping[str, Any]) -> Outcome:
    """Return what came of a call of an operator's tool, whose reply a gateway gave as plain values."""
    if body["status"] in (Status.ERROR, Status.INVALID_PARAMETER):
        return Answer(id="", fault=msgspec.convert(body, Fault))
    if tool.write and body["status"] == Status.PENDING:
        return Pending(body["command_id"])
    return Answer(id="", reply=msgspec.convert({**body, "type": tool.replies[0].__struct_config__.tag}, AnyReply))


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` in a loop of its own; raises CommandFailed when Redis is not fit."""

    async def whole() -> T:
        try:
            return await work()
        finally:
            with anyio.CancelScope(shield=True):
                await let_tls_end()

    try:
        return anyio.run(whole, backend_options={"use_uvloop": os.name != "nt"})
    except UnsupportedServer as problem:
        raise CommandFailed(str(problem)) from None


def checked_command(given: Mapping[str, Any], kind: type[C]) -> C:
    """Return the command with these fields; raises CommandFailed naming what is wrong."""
    try:
        command = msgspec.convert({name: composed(value) for name, value in given.items()}, kind)
        command.check()
    except msgspec.ValidationError as problem:
        raise CommandFailed(f"{problem}.", ExitCode.MISUSED) from None
    except EngramqError as problem:
        advice = problem.fault.recovery.removeprefix(FaultCode.INVALID_PARAMETER.recovery)
        raise CommandFailed(f"{problem.fault.error} {advice}".strip(), ExitCode.MISUSED) from None
    return command


def overview(settings: Settings) -> InstallationState:
    """Return how the installation at `settings.redis_url` is, within about 8 s."""
    logging.getLogger("engramq").addHandler(logging.NullHandler())  # what is wrong is told by the checks
    return run(partial(_overview, settings))


def whole_health(settings: Settings) -> Health:
    """Return the same in the form in which a home's gateway tells it to its supervisor."""
    return whole_health_in(overview(settings))


def redis_alone(settings: Settings) -> Check:
    """Check that Redis answers and takes writes, within about 4 s; no worker is asked."""
    return run(partial(_redis_alone, settings))


async def _redis_alone(settings: Settings) -> Check:
    lanes = lanes_of(settings)
    try:
        look = await look_at(lanes)
        refused = look.refused or await missing_rights(lanes)
    except NoLook as problem:
        return redis_check(str(problem), answers=False)
    return redis_check(refused or look.away, answers=not refused)


async def _overview(settings: Settings) -> InstallationState:
    try:
        async with open_bus(settings) as bus:
            found = await overview_of(bus, settings_caller(settings))
    except UnsupportedServer as problem:
        checks = [redis_check(str(problem), answers=False)]
        return InstallationState(status=status_of(checks), checks=checks, mailboxes=[])
    try:
        missing = await missing_rights(lanes_of(settings))
    except NoLook:
        return found  # the look has said why
    if not missing:
        return found
    cut_off = any(check.name == CheckName.REDIS and check.state == "failed" for check in found.checks)
    checks = merged([redis_check(missing, answers=not cut_off), *found.checks])  # of two as bad the first counts
    return InstallationState(status=status_of(checks), checks=checks, mailboxes=found.mailboxes)
