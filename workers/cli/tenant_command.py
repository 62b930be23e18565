"""`engramq tenant list`, `config` and `export`: what namespaces hold and how they are configured, in the database."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import msgspec

from engramq.schemas.command_line import CommandFailed
from engramq.schemas.ids import format_time
from engramq.schemas.phrases import count_of, memories
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.cli.new_file import Unwritable, new_file
from engramq.workers.cli.running import in_database, require_database, run
from engramq.workers.db import audit
from engramq.workers.db.database import Store
from engramq.workers.db.languages import FullText, change_language, full_text, known_languages
from engramq.workers.db.tenants import NOBODY
from engramq.workers.db.transaction import Transaction
from engramq.workers.tenants.contents import Contents, contents
from engramq.workers.tenants.export import Wanted, holds_project, lines


def list_tenants(settings: Settings, *, empty: bool, as_json: bool) -> None:
    """Print every namespace with what it holds; `empty`: those too of which the audit log is left alone.

    Raises CommandFailed, EngramqError with `unavailable`.
    """
    require_database(settings)
    found = [(name, held) for name, held in run(_found(settings)) if held or empty]
    for name, held in found:
        print(msgspec.json.encode(_told(name, held)).decode() if as_json else _shown(name, held))
    if not found:
        print("engramq tenant: there is no namespace that holds anything", file=sys.stderr)


def configure_tenant(settings: Settings, namespace: str, *, language: str | None, as_json: bool) -> None:
    """Give a namespace a language if one is named, then print how it is configured.

    Raises CommandFailed, EngramqError with `unavailable`.
    """
    require_database(settings)
    found = run(_configured(settings, namespace, language))
    if found is None:
        raise unknown(namespace)
    if as_json:
        print(msgspec.json.encode({"namespace": namespace, **found.told}).decode())
        return
    far = found.told.get("rebuilding")
    anew = "" if far is None else f", words made anew: {far['done']:,} of {memories(far['total'])}"
    print(f"{_quoted(namespace)}  language {found.language}{anew}")


def export_tenant(settings: Settings, namespace: str, target: Path | None, **wanted: Any) -> None:
    """Write a namespace to a file that is not there yet, or (None) to standard output; see docs/export.md.

    `wanted`: as in `Wanted`. Raises CommandFailed, EngramqError with `unavailable`.
    """
    require_database(settings)
    with _opened(target) as out:
        count = run(_exported(settings, namespace, out, Wanted(**wanted)))
    print(f"{count_of(count - 2, 'record')} of namespace {namespace!r} exported.", file=sys.stderr)


def unknown(namespace: str) -> CommandFailed:
    """Return the refusal of a namespace that nobody has ever written to."""
    return CommandFailed(f"There is no namespace {namespace!r}; engramq tenant list shows all.")


async def _found(settings: Settings) -> list[tuple[str, Contents]]:
    """Return what each namespace holds, after its name."""

    async def count(store: Store) -> list[tuple[str, Contents | None]]:
        return [(name, await store.read(name, contents)) for name in await store.namespaces()]

    return [(name, held) for name, held in await in_database(settings, count) if held is not None]


async def _configured(settings: Settings, namespace: str, language: str | None) -> FullText | None:
    async def change(tx: Transaction) -> FullText | None:
        if language is not None:
            known = await known_languages(tx)
            if language not in known:
                raise CommandFailed(f"This PostgreSQL knows no language {language!r}, but {', '.join(known)}.")
            former = await change_language(tx, language)
            if former is not None:
                action, told = AuditAction.CONFIGURE_TENANT, {"language": language}
                await audit.write(tx, settings.principal, action, None, old={"language": former}, new=told)
        return await full_text(tx)

    async def configured(store: Store) -> FullText | None:
        if language is None:
            return await store.read(namespace, full_text)
        return await store.write(namespace, change)

    return await in_database(settings, configured)


async def _exported(settings: Settings, namespace: str, out: IO[bytes], wanted: Wanted) -> int:
    async def write(tx: Transaction) -> int:
        if tx.tenant == NOBODY:
            raise unknown(namespace)
        if wanted.project is not None and not await holds_project(tx, wanted.project):
            raise CommandFailed(
                f"No memory of namespace {namespace!r} is in project {wanted.project!r}; engramq projects lists them."
            )
        count = 0
        async for line in lines(tx, wanted, version("engramq")):
            _write(out, line)
            count += 1
        return count

    return await in_database(settings, lambda store: store.snapshot(namespace, write))


@contextmanager
def _opened(target: Path | None) -> Iterator[IO[bytes]]:
    """Open what an export goes to. A file has its name once it is whole; only its owner may read it."""
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with new_file(target) as out:
            yield out
    except Unwritable as problem:
        raise CommandFailed(str(problem)) from None


def _write(out: IO[bytes], line: bytes) -> None:
    try:
        out.write(line)
    except OSError as problem:  # of standard output; further up it would mean that the database is away
        raise CommandFailed(f"The export cannot be written: {problem.strerror or problem}.") from None


def _told(name: str, held: Contents) -> dict[str, Any]:
    last = None if held.last_activity is None else format_time(held.last_activity)
    return {"namespace": name, "memories": held.memories, **asdict(held), "last_activity": last}


def _shown(name: str, held: Contents) -> str:
    states = ", ".join(f"{count} {state}" for state, count in sorted(held.by_state.items()))
    last = "never" if held.last_activity is None else format_time(held.last_activity)
    return "  ".join(
        (
            _quoted(name),
            memories(held.memories) + (f" ({states})" if states else ""),
            count_of(held.bytes, "byte"),
            count_of(held.nodes, "node"),
            count_of(held.edges, "edge"),
            count_of(held.links, "link"),
            count_of(held.tokens, "token"),
            f"last written {last}",
            held.language,
        )
    )


def _quoted(text: str) -> str:
    """Return a chosen name so that it stays on its line whatever it holds."""
    return text if text.isprintable() and text.strip() == text and '"' not in text else ascii(text)
