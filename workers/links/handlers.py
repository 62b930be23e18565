"""The `edges` kind's commands on links between memories."""

from collections.abc import Mapping
from dataclasses import dataclass

from engramq.schemas.commands import Command, Connect, Connects, Disconnect, RecordOutcome
from engramq.schemas.faults import FaultCode, refuse
from engramq.workers.db.ledger import Effect, Ledger
from engramq.workers.links.batch import connect_all
from engramq.workers.links.disconnect import disconnect
from engramq.workers.links.outcomes import record_outcome
from engramq.workers.links.rules import LinkRules
from engramq.workers.links.writer import connect
from engramq.workers.queue.contract import Handler, Job, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Linker:
    """The handlers of these commands. An untrusted principal may link and disconnect untrusted memories only."""

    ledger: Ledger
    rules: LinkRules

    async def connect(self, job: Job) -> Outcome:
        """Carry out Connect."""
        command, envelope = job.envelope.command, job.envelope
        assert isinstance(command, Connect)
        return await self._run(job, lambda tx: connect(tx, command, envelope=envelope, rules=self.rules))

    async def connect_all(self, job: Job) -> Outcome:
        """Carry out Connects."""
        command, envelope = job.envelope.command, job.envelope
        assert isinstance(command, Connects)
        return await self._run(job, lambda tx: connect_all(tx, command, envelope=envelope, rules=self.rules))

    async def disconnect(self, job: Job) -> Outcome:
        """Carry out Disconnect."""
        command, envelope = job.envelope.command, job.envelope
        assert isinstance(command, Disconnect)
        return await self._run(job, lambda tx: disconnect(tx, command, envelope))

    async def record_outcome(self, job: Job) -> Outcome:
        """Carry out RecordOutcome."""
        command, envelope = job.envelope.command, job.envelope
        assert isinstance(command, RecordOutcome)
        if envelope.principal.untrusted:
            raise refuse(FaultCode.FORBIDDEN, "An untrusted principal may not record outcomes.")
        return await self._run(job, lambda tx: record_outcome(tx, command, envelope=envelope, rules=self.rules))

    async def _run(self, job: Job, effect: Effect) -> Outcome:
        recorded = await self.ledger.run(job, effect)
        return Outcome(recorded.reply, replayed=recorded.replayed)


def handlers(linker: Linker) -> Mapping[type[Command], Handler]:
    """Return the handlers by command."""
    return {
        Connect: linker.connect,
        Connects: linker.connect_all,
        Disconnect: linker.disconnect,
        RecordOutcome: linker.record_outcome,
    }
