"""A command of an operator through the queue: asked once, then asked after until it has ended."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import anyio
import msgspec

from engramq.gateway.queue.bus import Pending
from engramq.gateway.queue.lanes import AnyBus
from engramq.schemas.commands import Command, CommandReport, GetCommand, Reply
from engramq.schemas.envelope import Answer, Principal
from engramq.schemas.faults import EngramqError, Fault, FaultCode, refuse
from engramq.schemas.vocabulary import ALL_SCOPES, CommandStatus

ANSWER_TIMEOUT_S: Final = 20.0  # after which a command is asked after instead
READ_TIMEOUT_S: Final = 120.0  # of one behind batches of an import
ASK_AGAIN_S: Final = 1.0
PROGRESS_S: Final = 5.0
ENDED: Final = (CommandStatus.DONE, CommandStatus.FAILED, CommandStatus.UNKNOWN)

R = TypeVar("R", bound=Reply)


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks in the name of the operator, who may do everything in this namespace."""

    bus: AnyBus
    namespace: str
    principal: str

    async def run(self, command: Command, kind: type[R], *, progress: Callable[[], Awaitable[None]] | None = None) -> R:
        """Return the reply, however long it takes; raises EngramqError.

        `progress` is called now and then while it takes long.
        """
        timeout_s = ANSWER_TIMEOUT_S if progress is None else ASK_AGAIN_S
        answer = await self.ask(command, timeout_s)
        if isinstance(answer, Pending):
            return await self._until_ended(answer.command_id, kind, progress)
        if answer.fault is not None:
            raise EngramqError(answer.fault)
        assert isinstance(answer.reply, kind)
        return answer.reply

    async def read(self, command: Command, kind: type[R]) -> R:
        """Return the reply of a read that has to wait for its turn; raises EngramqError."""
        answer = await self.ask(command, READ_TIMEOUT_S)
        assert isinstance(answer, Answer)  # only writes are pending
        if answer.fault is not None:
            raise EngramqError(answer.fault)
        assert isinstance(answer.reply, kind)
        return answer.reply

    async def ask(self, command: Command, timeout_s: float | None = None) -> Answer | Pending:
        """Ask once."""
        principal = Principal(name=self.principal, scopes=ALL_SCOPES)
        return await self.bus.ask(command, namespace=self.namespace, principal=principal, timeout_s=timeout_s)

    async def _until_ended(self, command_id: str, kind: type[R], progress: Callable[[], Awaitable[None]] | None) -> R:
        told_at = time.monotonic()
        while True:
            answer = await self.ask(GetCommand(command_id=command_id))
            report = answer.reply if isinstance(answer, Answer) else None
            if isinstance(report, CommandReport) and report.status in ENDED:
                return _reported(report, kind)
            if progress is not None and time.monotonic() > told_at + PROGRESS_S:
                told_at = time.monotonic()
                await progress()
            await anyio.sleep(ASK_AGAIN_S)


def _reported(report: CommandReport, kind: type[R]) -> R:
    body = report.reply
    if report.status is CommandStatus.DONE and body is not None:
        return msgspec.convert({**body, "type": kind.__struct_config__.tag}, kind)
    if report.status is CommandStatus.FAILED and body is not None:
        raise EngramqError(msgspec.convert(body, Fault))
    raise refuse(FaultCode.UNAVAILABLE, "Nothing is known of the command.", recovery="Run the same command again.")
