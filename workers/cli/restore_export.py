"""`engramq import` of an export: everything of a namespace brought back, as it was."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.exports import LINE_BYTES
from engramq.schemas.packed_lines import Source, UnusableFile
from engramq.schemas.phrases import count_of, memories
from engramq.schemas.setting_values import namespace as valid_namespace
from engramq.schemas.settings import Settings
from engramq.workers.cli.running import in_database, require_database, run
from engramq.workers.db.database import Store
from engramq.workers.queue.contract import OutcomeUnknown
from engramq.workers.tenants.export_check import Refused
from engramq.workers.tenants.restoring import Found, Occupied, Restored, Told, check, require_empty, restore

# Records of which more than one are called otherwise than by an s.
NAMES: Final = {"memory": ("memory", "memories"), "audit": ("audit entry", "audit entries")}


def restore_export(settings: Settings, path: Path, *, namespace: str | None, dry_run: bool, tell: Told) -> None:
    """Restore an export into an empty namespace (None: the one that it was made of), or, `dry_run`, only check it.

    `tell` hears of every record how far it is. Raises CommandFailed, EngramqError with `unavailable`; nothing was
    restored then.
    """
    require_database(settings)
    try:
        found = check(lambda: _lines(path), tell)
        wanted = namespace or _named(found)
        restored = run(_restored(settings, wanted, path, found, tell, dry_run=dry_run))
    except Refused as problem:
        raise CommandFailed(f"{path}: {problem} Nothing was restored.") from None
    except UnusableFile as problem:
        raise CommandFailed(f"{problem} Nothing was restored.") from None
    except Occupied as problem:
        raise CommandFailed(str(problem)) from None
    except OutcomeUnknown:
        told = "The connection was lost at the end. Run the same command again: it says whether anything was restored."
        raise CommandFailed(told, ExitCode.MIDWAY) from None
    counts = found.summary.counts
    told = ", ".join(count_of(count, *NAMES.get(kind, (kind.replace("_", " "),))) for kind, count in counts.items())
    if restored is None:
        print(f"The export is whole and fits namespace {wanted!r}: {told}. Nothing was restored.")
        return
    print(f"Restored {told} into namespace {wanted!r}.")
    if restored.pending:
        print(f"{memories(restored.pending)} will get a vector in the background, and are found by text until then.")


async def _restored(
    settings: Settings, namespace: str, path: Path, found: Found, tell: Told, *, dry_run: bool
) -> Restored | None:
    async def into(store: Store) -> Restored | None:
        if dry_run:
            await require_empty(store, namespace)
            return None
        return await restore(store, namespace, found, lambda: _lines(path), settings.principal, tell)

    return await in_database(settings, into, pool_size=2)


def _named(found: Found) -> str:
    try:
        return valid_namespace(found.head.namespace)
    except ValueError as problem:
        raise Refused(1, "namespace", f"{found.head.namespace!r} {problem}; --namespace names another one.") from None


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as raw:
            yield from Source(raw).lines(LINE_BYTES)
    except OSError as problem:  # which further up would mean that the database is away
        raise UnusableFile(f"{path} cannot be read: {problem.strerror or problem}.") from None
