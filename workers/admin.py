"""Carry out operators' commands in the database and on dead letters: the only module here that `deploy` imports.

Each function runs in an event loop of its own and returns what was found or done; `deploy.cli` prints it. All raise
CommandFailed when PostgreSQL or Redis is not fit, SettingsError where none is named, and EngramqError with
`unavailable` when it goes away.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar

from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.connection import CLIENT_ERRORS, UnsupportedServer, lanes_of
from engramq.schemas.envelope import PrincipalId
from engramq.schemas.exports import LINE_BYTES
from engramq.schemas.faults import EngramqError
from engramq.schemas.ids import parse_uuid
from engramq.schemas.packed_lines import PackedSource, UnusableFile
from engramq.schemas.setting_values import namespace as valid_namespace
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import AuditAction, WorkerKind
from engramq.workers.auth import tokens
from engramq.workers.auth.tokens import NewToken, Token
from engramq.workers.db import audit
from engramq.workers.db.database import Store
from engramq.workers.db.figures import store_figures
from engramq.workers.db.namespaces import FullText, change_language, full_text, known_languages
from engramq.workers.db.privacy import Privacy, change_privacy, privacy_of
from engramq.workers.db.readiness import NotReady
from engramq.workers.db.reembedding import ReembeddingProgress, progress
from engramq.workers.db.rewriting import (
    Cluster,
    RewriteBegun,
    RewritePlanned,
    RewriteReport,
    Rewritten,
    log_kept,
    rewrite_database,
)
from engramq.workers.db.transaction import NOBODY, Transaction
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.migrating import require_database, run
from engramq.workers.queue.contract import ResultUnknown
from engramq.workers.queue.dead_letters import DeadLetter, DeadLetters
from engramq.workers.queue.inspection import Inspection, NotRewritten
from engramq.workers.tenants import export, handlers, restoring
from engramq.workers.tenants.export_check import ExportRefused
from engramq.workers.tenants.handlers import TenantContents, count_contents
from engramq.workers.webhooks import hooks
from engramq.workers.webhooks.hooks import DeadMessage, Webhook

__all__ = [
    "Cluster", "DeadLetter", "DeadMessage", "FullText", "NewToken", "Privacy", "RewriteBegun",
    "RewritePlanned", "RewriteReport", "Rewritten", "TenantContents", "Token", "Webhook", "change_letter",
    "command_of", "configure", "dead_letter", "dead_letters", "export_to", "hand_over", "hooks", "in_database",
    "restore_export", "rewrite_database", "rewrite_redis", "saving", "tenants", "tokens", "tokens_of_all", "under_way",
]  # fmt: skip

T = TypeVar("T")

LETTERS_S: Final = 5.0  # to connect to Redis, and for an answer

SILENT_S: Final = 60.0  # after which nobody seems to be at it: between two looks at work that is left lie seconds


def in_database(settings: Settings, work: Callable[[Store], Awaitable[T]], *, pool_size: int = 1) -> T:
    """Run `work` with the database open, and return what it does. It is an operator's, who sees what is private too."""
    require_database(settings)
    return run(_with_store(settings, work, pool_size))


async def _with_store(settings: Settings, work: Callable[[Store], Awaitable[T]], pool_size: int = 1) -> T:
    async with await Store.open(settings.database_url, pool_size=pool_size, language=settings.language) as store:
        return await work(store.seen_by(EVERYTHING))


# Tokens


async def tokens_of_all(store: Store) -> Sequence[Token]:
    """Return the tokens of every namespace."""
    return [token for name in await store.namespaces() for token in await tokens.list_kept(store, name)]


# Namespaces


async def tenants(store: Store) -> list[tuple[str, TenantContents]]:
    """Return the name of each namespace with what it holds."""
    counted = [(name, await store.read(name, count_contents)) for name in await store.namespaces()]
    return [(name, held) for name, held in counted if held is not None]


def configure(
    settings: Settings, namespace: str, language: str | None, private: Mapping[str, Any]
) -> tuple[FullText, Privacy] | None:
    """Configure a namespace by what is named; return how it is configured now, None where there is none.

    `private`: as `change_privacy` takes it.
    """

    async def now(tx: Transaction) -> tuple[FullText, Privacy] | None:
        words = await full_text(tx)
        return None if words is None else (words, await privacy_of(tx))

    async def change(tx: Transaction) -> tuple[FullText, Privacy] | None:
        if language is not None:
            known = await known_languages(tx)
            if language not in known:
                raise CommandFailed(f"This PostgreSQL knows no language {language!r}, but {', '.join(known)}.")
            former = await change_language(tx, language)
            if former is not None:
                old, new = {"language": former}, {"language": language}
                await audit.write(tx, settings.principal, AuditAction.CONFIGURE_TENANT, None, old=old, new=new)
        before = await privacy_of(tx)
        await change_privacy(tx, **private)
        if (after := await privacy_of(tx)) != before:
            old, new = before.as_reply, after.as_reply
            await audit.write(tx, settings.principal, AuditAction.CONFIGURE_TENANT, None, old=old, new=new)
        return await now(tx)

    def configured(store: Store) -> Awaitable[tuple[FullText, Privacy] | None]:
        changes = any(value is not None for value in (language, *private.values()))
        return store.write(namespace, change) if changes else store.read(namespace, now)

    return in_database(settings, configured)


def hand_over(
    settings: Settings, namespace: str, leaving: PrincipalId, heir: PrincipalId, *, new_name: bool, dry_run: bool
) -> int | None:
    """Let another principal own what is private to one, or, `dry_run`, only count it.

    None where there is no such namespace. Raises CommandFailed where nothing there knows the heir, unless it has a
    `new_name`: what is handed over to a misspelt one nobody sees any more.
    """

    async def work(tx: Transaction) -> int | None:
        if tx.tenant == NOBODY:
            return None
        if not new_name and heir.name != settings.principal and not await handlers.is_known(tx, heir):
            raise CommandFailed(
                f"No token and no memory of namespace {namespace!r} knows {heir.name!r}. "
                "--new-name says that it is right."
            )
        if dry_run:
            return await handlers.count_owned(tx, leaving)
        return await handlers.hand_over(tx, leaving, heir, settings.principal)

    async def done(store: Store) -> int | None:
        known = await store.read(namespace, work if dry_run else _tenant)
        return known if dry_run or known == NOBODY else await store.write(namespace, work)

    return in_database(settings, done)


class LineSink(Protocol):
    """Takes the lines of an export."""

    def write(self, line: bytes, /) -> object:
        """Take a line; raises OSError."""
        ...


def export_to(settings: Settings, namespace: str, out: LineSink, **wanted: Any) -> int:
    """Write a namespace as lines, one transaction's view of it, and return how many; `wanted`: as ExportChoice.

    Raises CommandFailed also where a line is wrong.
    """

    async def write(tx: Transaction) -> int:
        if tx.tenant == NOBODY:
            raise CommandFailed(f"There is no namespace {namespace!r}; engramq tenant list shows all.")
        choice = export.ExportChoice(**wanted)
        if not await export.holds_any(tx, choice):
            raise CommandFailed(export.NOTHING_CHOSEN.format(namespace=namespace, choice=choice))
        count = 0
        try:
            async for line in export.checked_lines(tx, choice):
                try:
                    out.write(line)
                except OSError as problem:  # of standard output; further up it would mean that the database is away
                    raise CommandFailed(f"The export cannot be written: {problem.strerror or problem}.") from None
                count += 1
        except ExportRefused as problem:
            raise CommandFailed(
                f"The export could not be restored: {problem} Take engramq backup instead, which keeps all, and "
                "report this."
            ) from None
        return count

    return in_database(settings, lambda store: store.snapshot(namespace, write))


def restore_export(
    settings: Settings, path: Path, namespace: str | None, tell: restoring.ReportRecords, *, dry_run: bool
) -> tuple[str, dict[str, int], int | None]:
    """Restore an export into an empty namespace (None: the one that it was made of), or, `dry_run`, only check it.

    `tell` hears of every record how far it is. Returns the namespace, what the export holds, and how many memories
    still wait for a vector (None: only checked). Whatever is raised, nothing was restored, unless the connection was
    lost.
    """
    require_database(settings)

    async def into(store: Store) -> int | None:
        if dry_run:
            await restoring.require_empty(store, wanted)
            return None
        done = await restoring.restore_records(store, wanted, found, lambda: _lines(path), settings.principal, tell)
        return done.pending

    try:
        found = restoring.check(lambda: _lines(path), tell)
        wanted = namespace or _namespace_of(found)
        return wanted, found.summary.counts, in_database(settings, into, pool_size=2)
    except ExportRefused as problem:
        raise CommandFailed(f"{path}: {problem} Nothing was restored.") from None
    except UnusableFile as problem:
        raise CommandFailed(f"{problem} Nothing was restored.") from None
    except restoring.NamespaceOccupied as problem:
        raise CommandFailed(str(problem)) from None
    except ResultUnknown:
        lost = "The connection was lost at the end. Run the same command again: it says whether anything was restored."
        raise CommandFailed(lost, ExitCode.MIDWAY) from None


def _namespace_of(found: restoring.CheckedExport) -> str:
    try:
        return valid_namespace(found.head.namespace)
    except ValueError as problem:
        raise ExportRefused(
            1, "namespace", f"{found.head.namespace!r} {problem}; --namespace names another one."
        ) from None


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as raw:
            yield from PackedSource(raw).lines(LINE_BYTES)
    except OSError as problem:  # which further up would mean that the database is away
        raise UnusableFile(f"{path} cannot be read: {problem.strerror or problem}.") from None


# Dead letters


@asynccontextmanager
async def _letters(settings: Settings) -> AsyncIterator[DeadLetters]:
    lanes = lanes_of(settings)
    try:
        async with lanes.server.client(timeout_s=LETTERS_S) as client:
            yield DeadLetters(client, lanes)
    except UnsupportedServer as problem:
        raise CommandFailed(str(problem)) from problem
    except CLIENT_ERRORS as problem:
        raise CommandFailed(f"Redis cannot be asked: {problem}.") from problem


def dead_letters(
    settings: Settings, kinds: Sequence[WorkerKind], namespace: str | None, limit: int
) -> list[DeadLetter]:
    """Return the newest letters of each kind, the newest last."""

    async def listed() -> list[DeadLetter]:
        async with _letters(settings) as letters:
            several = [letter for kind in kinds for letter in await letters.list(kind, limit, namespace)]
            return sorted(several, key=lambda letter: letter.died_at)

    return run(listed())


def dead_letter(settings: Settings, letter_id: str, namespace: str | None) -> DeadLetter | None:
    """Return one letter, None where there is none."""
    return run(_letter(settings, letter_id, namespace))


async def _letter(settings: Settings, letter_id: str, namespace: str | None) -> DeadLetter | None:
    async with _letters(settings) as letters:
        letter = await letters.show(letter_id)
    return letter if letter is None or namespace in (None, letter.namespace) else None


def change_letter(
    settings: Settings, letter_id: str, namespace: str | None, way: Literal["retry", "drop"], reason: str | None
) -> bool | None:
    """Put a letter back into its mailbox, or remove it; its namespace's audit log says so before.

    None when there is none, False when it stays.
    """
    require_database(settings)

    async def changed() -> bool | None:
        letter = await _letter(settings, letter_id, namespace)
        if letter is None:
            return None
        await _with_store(settings, lambda store: _note_change(store, settings, letter, way, reason))
        async with _letters(settings) as letters:
            return await (letters.retry(letter_id) if way == "retry" else letters.drop(letter_id))

    return run(changed())


async def _note_change(
    store: Store, settings: Settings, letter: DeadLetter, way: Literal["retry", "drop"], reason: str | None
) -> None:
    """Note what is about to be done. A letter that cannot be read is in no namespace, and so in no log."""
    if letter.namespace is None or await store.read(letter.namespace, _tenant) == NOBODY:
        return
    action = AuditAction.RETRY_COMMAND if way == "retry" else AuditAction.DROP_COMMAND
    old = {"command": command_of(letter), "mailbox": letter.mailbox, "error": letter.error}
    await store.write(
        letter.namespace,
        lambda tx: audit.write(
            tx, settings.principal, action, None, old=old, new={}, reason=reason, command_id=parse_uuid(letter.id)
        ),
    )


async def _tenant(tx: Transaction) -> int:
    return tx.tenant


def command_of(letter: DeadLetter) -> str | None:
    """Return the name of a letter's command, None where it cannot be read."""
    envelope = letter.envelope()
    return None if envelope is None else str(type(envelope.command).__struct_config__.tag)


# Files and what is under way


def rewrite_redis(settings: Settings) -> bool:
    """Write the append-only file of Redis anew; False where there is none."""

    async def rewrite() -> bool:
        async with Inspection(lanes_of(settings)) as view:
            try:
                return await view.rewrite_log(at_once=True)
            except (NotRewritten, ResultUnknown) as problem:
                raise CommandFailed(f"The tables are written anew, Redis's file is not. {problem}.") from None

    return run(rewrite())


@contextmanager
def saving(database_url: str) -> Iterator[Cluster]:
    """Have the server keep what a base backup needs for as long as the block lasts; yields what is saved."""
    kept = log_kept(database_url)
    with asyncio.Runner() as runner:
        try:
            cluster = runner.run(kept.__aenter__())
        except NotReady as problem:
            raise CommandFailed(str(problem)) from None
        try:
            yield cluster
        finally:
            runner.run(kept.__aexit__(None, None, None))


def under_way(database_url: str) -> dict[str, Any]:
    """Return what is being done in the background, over one connection.

    `reembedding`: how far it is, None when none is under way; its `state` is `running`, `waiting` or `unknown`, and its
    `problem` says why it is not running. `rebuilding`: in how many namespaces words are made anew, since their language
    was changed. `unfinished`: what stores have left for upkeep, `namespaces` with something of it and `pending`
    memories there, which have no vector yet; None when nobody can say. `webhooks`: messages that are `waiting`, how
    many of them are `due`, how old the oldest is, and `dead` ones; None when nobody can say. See StoreFigures.
    """
    try:
        return run(_under_way(database_url))
    except (CommandFailed, EngramqError) as failure:
        return {
            "reembedding": {"state": "unknown", "problem": str(failure)},
            "rebuilding": 0,
            "unfinished": None,
            "webhooks": None,
        }


async def _under_way(database_url: str) -> dict[str, Any]:
    async with await Store.open(database_url, pool_size=1) as store:
        change = await progress(store)
        figures = await store_figures(store)
        rebuilding = await store.ask("rebuilding_namespaces")
    return {
        "reembedding": None if change is None else _reembedding_state(change),
        "rebuilding": len(rebuilding),
        "unfinished": {"namespaces": figures.unfinished, "pending": figures.pending},
        "webhooks": asdict(figures.webhooks),
    }


def _reembedding_state(found: ReembeddingProgress) -> dict[str, Any]:
    silent = found.silent_s > SILENT_S
    problem = found.problem or ("no upkeep worker is at it" if silent else None)
    return {
        "state": "waiting" if problem else "running",
        "model": found.name,
        "done": found.total - found.remaining,
        "total": found.total,
        "per_s": found.per_s,
        "problem": problem,
    }
