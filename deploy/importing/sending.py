"""Send an import: batches to the imports mailbox, rejected rows to their file, and look whether a worker is there."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final, Protocol, TypeAlias

import anyio
import anyio.from_thread
import anyio.to_thread
import click
import msgspec
from msgspec import UNSET

from engramq.deploy.cli.operating import QueueClient, queue_client
from engramq.deploy.cli.output import ReplyBody, printable
from engramq.deploy.cli.progress import ProgressBar, Readable, say_between
from engramq.deploy.cli.tool_client import ASK_AGAIN_S, GIVE_UP_S, NOT_DONE, URL, ToolClient, is_refused, open_client
from engramq.deploy.importing.exports import LeftOut
from engramq.deploy.importing.records import Rejection, UncheckedRow, read_records
from engramq.deploy.importing.rows import CheckedRow, RowBatch, Secrets, check_rows, make_batches
from engramq.deploy.local.home import Home, home_from
from engramq.deploy.local.ownership import nobody_has
from engramq.deploy.local.servers_for import servers_for
from engramq.deploy.local.settings import REDIS_URL
from engramq.deploy.local.stack_hold import READY_BOUND_S
from engramq.gateway.operator import living_workers
from engramq.schemas.checks import REDIS_AWAY
from engramq.schemas.commands import BatchImported, Command, ImportBatch, MakeReceipt, ReceiptMade
from engramq.schemas.faults import NOT_APPLIED, EngramqError, Fault, FaultCode, invalid, refuse
from engramq.schemas.limits import ALIVE_S
from engramq.schemas.packed_lines import PackedSource
from engramq.schemas.settings import Redact, Settings, read_settings
from engramq.schemas.vocabulary import Absence, OnDuplicate, ReceiptStatus, RowFormat, Status, Visibility, WorkerKind

CORRECTIONS: Final = (
    "{} may correct a private memory of yours, and are private, too: engramq share shows one to everybody. Rows that "
    'say visibility="shared" are shared.'
)


def find_first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group of tasks, however deep it lies."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


class CannotReject(Exception):
    """The file for rejected rows cannot be written."""


class RejectFile:
    """One JSON line for each rejected row, in a file that is made at the first of them; None: the error stream.

    The file gets its name when it is whole, and takes the place of whatever had it: of a link too, which an archive of
    somebody else may have led elsewhere. A device, as /dev/null is, is written to.
    """

    def __init__(self, path: Path | None, stack: ExitStack) -> None:
        self.path = path
        self._stack = stack
        self._file: IO[bytes] | None = None
        self._fresh: Path | None = None  # until it is whole

    def write(self, rejection: Rejection) -> None:
        """Tell of one row; raises CannotReject."""
        if self.path is None:
            line = (
                [f"line {rejection.line}"] if rejection.line else []
            )  # none: the file as a whole, or a database's row
            place = ", ".join(([rejection.file] if rejection.file else []) + line)
            click.echo(f"{printable(place)}: {rejection.field}: {rejection.reason}", err=True)
            return
        try:
            if self._file is None:
                self._file = self._open_file(self.path)
            self._file.write(msgspec.json.encode(rejection) + b"\n")
        except OSError as problem:
            raise self._drop(problem) from None

    def close(self) -> None:
        """All rows are through: write what is left, and remove what an earlier import rejected; raises CannotReject."""
        try:
            if self._file is not None:
                self._keep()
            elif self.path is not None and self.path.is_file():  # never a device, as /dev/null is
                self.path.unlink()
        except OSError as problem:
            raise self._drop(problem) from None

    def _open_file(self, path: Path) -> IO[bytes]:
        self._stack.callback(self._keep_broken_off)
        if path.exists() and not path.is_file():
            return path.open("wb")
        fresh = path.with_name(f".{path.name}.{os.getpid()}.engramq")
        file = os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._fresh = fresh
        return file

    def _keep_broken_off(self) -> None:
        """Keep what an import that breaks off has rejected, where that can be written; why it broke off is said."""
        try:
            self._keep()
        except OSError as problem:
            click.echo(str(self._drop(problem)), err=True)

    def _keep(self) -> None:
        """Give the file its name, once all of it is written: on a full disk that is known no sooner."""
        if self._file is None:
            return
        self._file.flush()
        self._file.close()
        self._file = None
        if self._fresh is not None and self.path is not None:
            self._fresh.replace(self.path)
            self._fresh = None

    def _drop(self, problem: OSError) -> CannotReject:
        """Leave nothing half written, nor a disk full of it; what an earlier import rejected stays as it was."""
        if self._file is not None:
            with suppress(OSError):  # what is left of it cannot be written either
                self._file.close()
            self._file = None
        if self._fresh is not None:
            self._fresh.unlink(missing_ok=True)
            self._fresh = None
        told = problem.strerror or problem
        return CannotReject(f"{self.path} cannot be written: {told}. Name another file with --rejects.")


QUIET_S: Final = 2.0  # before it is said: a stack that this very command has started needs a moment
START_S: Final = 10.0  # that workers get which are being started
STACK_S: Final = READY_BOUND_S  # and those of the home's own stack, which this command may have started
RETURN_S: Final = GIVE_UP_S  # and workers that are being restarted
ASK_S: Final = 0.2
START_ONE: Final = "Start one: `engramq worker imports`, or `engramq worker --all`. See `engramq status`."


NO_WORKER: Final = f"No worker takes imports. {START_ONE}"
STARTING: Final = "The stack's worker, which takes imports, is still starting."
NOT_STARTED: Final = "The stack's worker, which takes imports, did not start. See `engramq status`."
TAKEN_DOWN: Final = "The stack in {} does not run any more (engramq down?), and nobody starts it again."
NO_REDIS: Final = f"{REDIS_AWAY} Is ENGRAMQ_REDIS_URL right, and does the server run? See `engramq status`."


class NoWorker(Exception):
    """Nobody takes imports; the message says what to do."""


class ImportWorkers:
    """The workers of the imports mailbox, as a look at the queue shows them."""

    def __init__(self, settings: Settings, home: Home | None = None) -> None:
        self._settings = settings
        self._home = home  # whose stack starts one

    async def require(self, patience_s: float, *, starting: bool = False) -> None:
        """Return when there is one; says so soon when there is none, and raises NoWorker when none comes.

        `starting`: the home's stack has just been started.
        """
        begun, told = time.monotonic(), ""
        while missing := await self._missing():
            waited_s = time.monotonic() - begun
            if waited_s >= patience_s:
                raise NoWorker(NOT_STARTED if starting and missing == NO_WORKER else missing)
            if waited_s >= QUIET_S and self._home is not None and nobody_has(self._home):
                raise NoWorker(TAKEN_DOWN.format(self._home.path))
            if waited_s >= QUIET_S and missing != told:
                told = missing
                said = STARTING if starting and missing == NO_WORKER else missing
                say_between(f"{said} Waiting for up to {patience_s:.0f} s.")
            await anyio.sleep(ASK_S)

    async def watch(self) -> None:
        """Raise NoWorker once there have been none for a while."""
        while True:
            await anyio.sleep(ALIVE_S)
            await self.require(RETURN_S)

    async def _missing(self) -> str:
        """Return what keeps rows from being taken, as a sentence.

        Redis's refusals of a row are reported by its sender.
        """
        alive = await living_workers(self._settings, WorkerKind.IMPORTS)
        return NO_REDIS if alive is None else "" if alive else NO_WORKER


LATE_S: Final = 30.0  # without an answer before it is said
BATCH_S: Final = 60.0  # that a batch may take before it is asked after
IN_FLIGHT: Final = 3  # batches at once: one embeds, one is written, one waits
BATCH_CHARS: Final = 400_000  # content per batch, so that a batch of long texts is not minutes of work


class Rejects(Protocol):
    """Takes rows that were not stored."""

    def write(self, rejection: Rejection) -> None:
        """Take one; raises CannotReject."""
        ...


class ImportProgress(Protocol):
    """Takes word of how far an import is."""

    def show(self, rows: int, read: int = 0) -> None:
        """Take how many rows are through, and how many were read."""
        ...

    def say(self, text: str) -> None:
        """Take a remark for the user that waits."""
        ...


@dataclass
class Importer:
    """Sends batches and keeps count. `rejects` gets one JSON line per row that was not stored.

    `read`: how many rows have been read, of which some are on their way. `sample`: one that was stored and kept
    apart. `left_out`: what rows came in without. `kept_to_author`: how many may correct a private memory.
    `corrected`: how many memories an edited note has replaced.
    """

    client: ToolClient
    namespace: str
    on_duplicate: OnDuplicate
    rejects: Rejects
    progress: ImportProgress
    counts: Counter[ReceiptStatus]
    read: int = 0
    sample: CheckedRow | None = None
    absent: Counter[tuple[ReceiptStatus, Absence]] = field(default_factory=Counter)
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    kept_to_author: int = 0
    corrected: int = 0
    degraded: bool = False
    secrets: Secrets = field(default_factory=Secrets)
    _is_late: bool = False

    async def run(self, items: Iterator[RowBatch | Rejection | LeftOut]) -> None:
        """Send everything; raises EngramqError when a batch cannot be brought in."""
        slots = anyio.CapacityLimiter(IN_FLIGHT)
        async with anyio.create_task_group() as group:
            while True:
                item = await anyio.to_thread.run_sync(next, items, None)  # reading may wait for a pipe
                if item is None:
                    return
                if isinstance(item, LeftOut):
                    self.left_out[item] += 1
                    continue
                self.read += 1 if isinstance(item, Rejection) else len(item.rows)
                if isinstance(item, Rejection):
                    self.reject(item)
                    continue
                await slots.acquire_on_behalf_of(item)
                group.start_soon(self._send, item, slots)

    async def _send(self, batch: RowBatch, slots: anyio.CapacityLimiter) -> None:
        try:
            body = await self.send(_command(batch, self.on_duplicate), batch.namespace, batch.key)
        finally:
            slots.release_on_behalf_of(batch)
        if is_refused(body):
            raise EngramqError(msgspec.convert(body, Fault))
        reply = msgspec.convert(body, BatchImported)
        self.degraded |= reply.degraded is True
        self.kept_to_author += reply.kept_to_author or 0
        self.corrected += reply.corrected or 0
        for receipt in reply.receipts:
            row = batch.rows[receipt.index]
            if receipt.status is ReceiptStatus.REJECTED:
                self.reject(Rejection(row.line, str(receipt.field or "line"), str(receipt.error or ""), row.file))
            else:
                self.counts[receipt.status] += 1
                if receipt.status is ReceiptStatus.STORED and row.record.source_type is not UNSET:
                    self.sample = self.sample or row
                if receipt.absence is not UNSET:
                    self.absent[receipt.status, receipt.absence] += 1
        self.progress.show(sum(self.counts.values()), self.read)

    async def send(self, command: Command, namespace: str, key: str) -> ReplyBody:
        """Return the reply to a command, however often it takes asking; says so when none comes for long."""
        late = asyncio.get_running_loop().call_later(LATE_S, self._say_late)
        client = self._client_in(namespace)
        try:
            return await anyio.to_thread.run_sync(_insist, client, command, key, abandon_on_cancel=True)
        finally:
            late.cancel()
            self._is_late = False

    def _client_in(self, namespace: str) -> ToolClient:
        if isinstance(self.client, QueueClient):
            return self.client.within(namespace)
        if namespace != self.namespace:
            error = f"A row names namespace {namespace!r}, and the token's is {self.namespace!r}."
            raise invalid("namespace", error, "Import it with a token of that namespace.")
        return self.client

    def _say_late(self) -> None:
        if not self._is_late:
            self._is_late = True
            self.progress.say(
                f"Nothing has gone in for {LATE_S:.0f} s; `engramq status` may say why. The import waits for up to "
                f"{GIVE_UP_S / 60:.0f} minutes. You can end it by Ctrl-C: the same command again goes on with the rest."
            )

    def reject(self, rejection: Rejection) -> None:
        """Count a row that was not stored, and write it down; raises CannotReject."""
        self.counts[ReceiptStatus.REJECTED] += 1
        self.rejects.write(rejection)


def _insist(client: ToolClient, command: Command, key: str) -> ReplyBody:
    """Return the reply to a write, asked again while the service is overloaded or away; raises EngramqError."""
    arguments = msgspec.to_builtins(command)
    tool, give_up = arguments.pop("type"), time.monotonic() + GIVE_UP_S
    while True:
        left_s = give_up - time.monotonic()
        reply = client.write(tool, arguments, key=key, patience_s=left_s, progress=anyio.from_thread.check_cancelled)
        if reply["status"] == Status.PENDING:
            raise refuse(FaultCode.UNAVAILABLE, "A batch was taken, but not done in time.", recovery=NOT_DONE)
        if reply.get("code") not in NOT_APPLIED or time.monotonic() > give_up:
            return reply
        anyio.from_thread.check_cancelled()
        time.sleep(reply.get("retry_after_s", ASK_AGAIN_S))


def _command(batch: RowBatch, on_duplicate: OnDuplicate) -> ImportBatch:
    return ImportBatch(
        records=tuple(row.record for row in batch.rows),
        # A row without an external id that is there already says the same.
        on_duplicate=on_duplicate if batch.named else OnDuplicate.SKIP,
        identities=tuple(row.identity for row in batch.rows),
        originals=tuple(row.original for row in batch.rows) if any(row.original for row in batch.rows) else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a file is imported: where to, what is done with what is there, and how its rows are read.

    `namespace`: of all rows; None, of those that the rows name. `row_format`: None: the content says it.
    `visibility`: of rows that do not say who sees them; None: as token and namespace have it.
    """

    namespace: str | None
    on_duplicate: OnDuplicate
    batch_size: int
    split: bool
    row_format: RowFormat | None
    visibility: Visibility | None = None

    def checked(
        self,
        records: Iterable[UncheckedRow | Rejection],
        settings: Settings,
        secrets: Secrets,
        *,
        foreign: bool = False,
    ) -> Iterator[CheckedRow | Rejection | LeftOut]:
        """Return what the records say, each checked; `secrets` counts those that are left out.

        `foreign`: another program has written them.
        """
        return check_rows(
            map(self._seen_by, records),
            self.namespace or settings.namespace,
            one_namespace=self.namespace is not None,
            split=self.split,
            secrets=secrets,
            foreign=foreign,
        )

    def _seen_by(self, record: UncheckedRow | Rejection) -> UncheckedRow | Rejection:
        if self.visibility is not None and isinstance(record, UncheckedRow):
            record.values.setdefault("visibility", self.visibility.value)
        return record


def new_secrets(settings: Settings) -> Secrets:
    """Return the count of secrets of an import, and whether they are left out."""
    return Secrets(left_out=settings.redact is not Redact.OFF)


@contextmanager
def import_servers(namespace: str | None) -> Iterator[Settings]:
    """Within the block rows can be imported, at ENGRAMQ_URL or by this machine's servers; yields the settings of that.

    Raises CommandFailed, DeployError, EngramqError, SettingsError.
    """
    if os.environ.get(URL):
        with open_client(namespace) as gateway:  # rows are known again by their namespace, which the token says
            asked = gateway.reply_to(MakeReceipt(erased=_NOTHING), ReceiptMade)
            yield replace(read_settings(os.environ), namespace=asked.namespace)
        return
    with servers_for("import") as settings:
        yield settings


_NOTHING: Final = "-"  # the id of nothing


@asynccontextmanager
async def importing(
    settings: Settings,
    options: Options,
    rejects: Path | None,
    counts: Counter[ReceiptStatus],
    source: Readable,
    total: int | None,
) -> AsyncIterator[Importer]:
    """Within the block rows can be sent; rows that could not be stored are listed in `rejects`.

    `source` and `total` are what the bar shows, `counts` what became of the rows, also where the import breaks off.
    Raises EngramqError, NoWorker, CannotReject, maybe in a group.
    """
    async with AsyncExitStack() as resources:
        files, workers = resources.enter_context(ExitStack()), None
        if os.environ.get(URL):
            client = files.enter_context(open_client(options.namespace))
        else:
            client = files.enter_context(
                queue_client(settings, settings.namespace, project=settings.project, write_s=BATCH_S)
            )
            home = None if os.environ.get(REDIS_URL) else home_from(os.environ)
            workers = ImportWorkers(settings, home)
            await workers.require(START_S if home is None else STACK_S, starting=home is not None)
        listing = RejectFile(rejects, files)
        importer = Importer(
            client,
            settings.namespace,
            options.on_duplicate,
            listing,
            resources.enter_context(ProgressBar(source, total)),
            counts,
            secrets=new_secrets(settings),
        )
        async with anyio.create_task_group() as watching:
            if workers is not None:
                watching.start_soon(workers.watch)
            yield importer
            watching.cancel_scope.cancel()
        listing.close()


# Opens an importer for what is read and its size, None where nobody knows it.
OpenImporter: TypeAlias = Callable[[Readable, int | None], AbstractAsyncContextManager[Importer]]


async def import_file(
    raw: Any,
    settings: Settings,
    options: Options,
    open_importer: OpenImporter,
    total_bytes: int | None,
) -> Importer:
    """Import all of `raw`, a file or what else has `read1`; returns the importer, which has counted the rows.

    Raises EngramqError, NoWorker, CannotReject, UnusableFile, maybe in a group.
    """
    source = PackedSource(raw)
    async with open_importer(source, total_bytes) as importer:
        records = read_records(source.lines(), options.row_format)
        rows = options.checked(records, settings, importer.secrets)
        await importer.run(make_batches(rows, options.batch_size, BATCH_CHARS))
    return importer
