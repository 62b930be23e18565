"""`engramq import`: a file's rows brought in, and told what became of them."""

import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

from engramq.gateway.cli.import_file import CannotReject, import_file
from engramq.gateway.cli.running import run
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import OnDuplicate, ReceiptStatus


def import_memories(
    path: Path | None,
    settings: Settings,
    *,
    namespace: str | None,
    on_duplicate: OnDuplicate,
    batch_size: int,
    rejects: Path | None,
) -> ExitCode:
    """Import a file (None: standard input) and print how many rows became what.

    Returns FAILED when rows were rejected; raises CommandFailed when the import could not go on.
    """
    if rejects is None and path is not None:
        rejects = path.with_name(path.name + ".rejects.jsonl")
    with _opened(path) as source, _told_midway():
        counts, degraded = run(
            partial(
                import_file,
                source,
                settings,
                namespace=namespace,
                on_duplicate=on_duplicate,
                batch_size=batch_size,
                rejects=rejects,
                total_bytes=None if path is None else path.stat().st_size,
            )
        )
    print("  ".join(f"{status} {counts[status]}" for status in ReceiptStatus))
    if degraded:
        print(
            "Some rows wait for their vectors (the embedder did not answer); they are found by text until then.",
            file=sys.stderr,
        )
    if not counts[ReceiptStatus.REJECTED]:
        return ExitCode.DONE
    print(f"Rejected rows, with line, field and reason: {rejects or 'above'}", file=sys.stderr)
    return ExitCode.FAILED


@contextlib.contextmanager
def _opened(path: Path | None) -> Iterator[IO[bytes]]:
    if path is None:
        yield sys.stdin.buffer
        return
    with path.open("rb") as source:
        yield source


@contextlib.contextmanager
def _told_midway() -> Iterator[None]:
    """Raise CommandFailed for what an import could not go on after: the first of its tasks' errors."""
    problems: list[BaseException] = []
    try:
        yield
    except* (EngramqError, CannotReject) as group:
        problems += _leaves(group)
    if problems:
        first = problems[0]
        told = f"{first.fault.error} {first.fault.recovery}" if isinstance(first, EngramqError) else str(first)
        raise CommandFailed(f"{told} What is in stays; run the same command again.", ExitCode.MIDWAY)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
