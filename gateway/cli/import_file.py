"""`engramq import FILE.jsonl`: bulk loading through the imports mailbox."""

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import anyio
import click
import msgspec

from engramq.gateway.cli.import_rows import Batch, Rejection, make_batches, read_rows
from engramq.gateway.cli.progress import Progress
from engramq.gateway.queue.bus import Bus, Pending
from engramq.schemas.commands import BatchImported, GetCommand, ImportBatch
from engramq.schemas.envelope import Answer, Principal
from engramq.schemas.faults import NOT_APPLIED, EngramqError, Fault, FaultCode, refuse
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES, CommandStatus, OnDuplicate, ReceiptStatus

IN_FLIGHT: Final = 3  # batches at once: one embeds, one is written, one waits
BATCH_CHARS: Final = 400_000  # content per batch, so that a batch of long texts is not minutes of work
ANSWER_TIMEOUT_S: Final = 60.0
NOT_DONE: Final = "See `engramq status`: is a worker running?"
GIVE_UP_S: Final = 300.0  # how long one batch is tried again while the service is away or overloaded


@dataclass
class Importer:
    """Sends batches and keeps count. `rejects` gets one JSON line per row that was not stored."""

    bus: Bus
    principal: Principal
    on_duplicate: OnDuplicate
    rejects: "RejectFile"
    progress: Progress
    counts: Counter[ReceiptStatus] = field(default_factory=Counter)
    degraded: bool = False
    project: str = ""  # of the rows that name none

    async def run(self, items: Iterator[Batch | Rejection]) -> None:
        """Send everything; raises EngramqError when a batch cannot be brought in."""
        slots = anyio.CapacityLimiter(IN_FLIGHT)
        async with anyio.create_task_group() as group:
            while True:
                item = await anyio.to_thread.run_sync(next, items, None)  # reading may wait for a pipe
                if item is None:
                    return
                if isinstance(item, Rejection):
                    self._reject(item)
                    continue
                await slots.acquire_on_behalf_of(item)
                group.start_soon(self._send, item, slots)

    async def _send(self, batch: Batch, slots: anyio.CapacityLimiter) -> None:
        try:
            answer = await self._ask_until_answered(batch)
        finally:
            slots.release_on_behalf_of(batch)
        if answer.fault is not None:
            raise EngramqError(answer.fault)
        assert isinstance(answer.reply, BatchImported)
        self.degraded |= answer.reply.degraded is True
        for receipt in answer.reply.receipts:
            row = batch.rows[receipt.index]
            if receipt.status is ReceiptStatus.REJECTED:
                self._reject(Rejection(row.line, str(receipt.field or "line"), str(receipt.error or "")))
            else:
                # Carried out before: nothing is stored anew, whatever the first reply said.
                self.counts[ReceiptStatus.SKIPPED if answer.replayed else receipt.status] += 1
        self.progress.show(sum(self.counts.values()))

    async def _ask_until_answered(self, batch: Batch) -> Answer:
        """Ask again while the service is overloaded or away: the key makes the batch once only."""
        give_up = time.monotonic() + GIVE_UP_S
        # Rows without external ids are never duplicates: they are the same request whatever is done with duplicates.
        on_duplicate = self.on_duplicate if batch.named else OnDuplicate.SKIP
        command = ImportBatch(records=tuple(row.record for row in batch.rows), on_duplicate=on_duplicate)
        for tries in itertools.count(1):
            try:
                answer = await self.bus.ask(
                    command,
                    namespace=batch.namespace,
                    principal=self.principal,
                    idempotency_key=batch.key,
                    project=self.project,
                    timeout_s=ANSWER_TIMEOUT_S,
                )
                if isinstance(answer, Pending):
                    await self._until_ended(answer.command_id, batch.namespace, give_up)
                    if time.monotonic() < give_up:
                        continue
                    raise refuse(FaultCode.UNAVAILABLE, "A batch was taken, but not done in time.", recovery=NOT_DONE)
                if answer.fault is None or answer.fault.code not in NOT_APPLIED:
                    # What an earlier try of ours has done is not there since another import.
                    return answer if tries == 1 else msgspec.structs.replace(answer, replayed=False)
                fault = answer.fault
            except EngramqError as refused:
                fault = refused.fault
            await self._wait_or_give_up(fault, give_up)
        raise AssertionError("unreachable")

    async def _until_ended(self, command_id: str, namespace: str, give_up: float) -> None:
        """Wait until a command that outlived our patience has ended; its stored reply is then ours by the key."""
        while time.monotonic() < give_up:
            answer = await self.bus.ask(
                GetCommand(command_id=command_id), namespace=namespace, principal=self.principal
            )
            status = getattr(getattr(answer, "reply", None), "status", None)
            if status not in {CommandStatus.PENDING, CommandStatus.RUNNING}:
                return
            await anyio.sleep(1.0)

    async def _wait_or_give_up(self, fault: Fault, give_up: float) -> None:
        if fault.code not in NOT_APPLIED or time.monotonic() > give_up:
            raise EngramqError(fault)
        await anyio.sleep(fault.retry_after_s if isinstance(fault.retry_after_s, float) else 1.0)

    def _reject(self, rejection: Rejection) -> None:
        self.counts[ReceiptStatus.REJECTED] += 1
        self.rejects.write(rejection)


class CannotReject(Exception):
    """The file that is to tell of rejected rows cannot be written."""


class RejectFile:
    """Where rejected rows are told of: a file made at the first of them, or the error stream."""

    def __init__(self, path: Path | None, stack: ExitStack) -> None:
        self.path = path
        self._stack = stack
        self._file: IO[bytes] | None = None

    def write(self, rejection: Rejection) -> None:
        """Tell of one row; raises CannotReject."""
        if self.path is None:
            click.echo(f"line {rejection.line}: {rejection.field}: {rejection.reason}", err=True)
            return
        try:
            if self._file is None:
                self._file = self._stack.enter_context(self.path.open("wb"))
            self._file.write(msgspec.json.encode(rejection) + b"\n")
        except OSError as problem:
            told = problem.strerror or problem
            raise CannotReject(f"{self.path} cannot be written: {told}. Name another file with --rejects.") from None


async def import_file(
    source: IO[bytes],
    settings: Settings,
    *,
    namespace: str | None,
    on_duplicate: OnDuplicate,
    batch_size: int,
    rejects: Path | None,
    total_bytes: int | None,
) -> tuple[Counter[ReceiptStatus], bool]:
    """Import all of `source`; returns how many rows became what, and whether some wait for their vectors."""
    async with AsyncExitStack() as resources:
        files = resources.enter_context(ExitStack())
        keys = Keys(settings.key_prefix)
        bus = await resources.enter_async_context(
            Bus(
                settings.redis_url, keys, mailbox_bound=settings.mailbox_bound, reply_timeout_s=settings.reply_timeout_s
            )
        )
        progress = resources.enter_context(Progress(source, total_bytes))
        rows = read_rows(progress.lines(), namespace or settings.namespace, one_namespace=namespace is not None)
        importer = Importer(
            bus,
            Principal(name=settings.principal, scopes=ALL_SCOPES),
            on_duplicate,
            RejectFile(rejects, files),
            progress,
            project=settings.project,
        )
        await importer.run(make_batches(rows, batch_size, BATCH_CHARS))
        return importer.counts, importer.degraded
