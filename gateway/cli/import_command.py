"""The command line of `engramq import`."""

import os
import sys
from pathlib import Path
from typing import Final

import anyio
import click

from engramq.gateway.cli.import_file import import_file
from engramq.gateway.cli.option_types import NAMESPACE
from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import OnDuplicate, ReceiptStatus

SOME_REJECTED: Final = 1
FAILED: Final = 3
PIPE: Final = "-"


@click.command(
    "import", help="Load memories from a JSONL file (- for standard input): one object per line, as store_memory takes."
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--namespace",
    type=NAMESPACE,
    help="Put every row there, whatever it names. Default: what the row names, else ENGRAMQ_NAMESPACE.",
)
@click.option(
    "--on-duplicate",
    type=click.Choice([str(word) for word in OnDuplicate]),
    default=str(OnDuplicate.SKIP),
    show_default=True,
    help="What to do with a row whose external_id is there already.",
)
@click.option(
    "--batch", type=click.IntRange(1, 1000), default=128, show_default=True, help="Rows that are stored together."
)
@click.option(
    "--rejects",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where bad rows are told of. Default: FILE.rejects.jsonl.",
)
@click.pass_context
def import_command(
    context: click.Context, file: str, namespace: str | None, on_duplicate: str, batch: int, rejects: Path | None
) -> None:
    settings = read_settings(os.environ)
    piped = file == PIPE
    path = Path(file)
    with sys.stdin.buffer if piped else path.open("rb") as source:
        try:
            counts, degraded = anyio.run(
                lambda: import_file(
                    source,
                    settings,
                    namespace=namespace,
                    on_duplicate=OnDuplicate(on_duplicate),
                    batch_size=batch,
                    rejects=rejects or (None if piped else path.with_name(path.name + ".rejects.jsonl")),
                    total_bytes=None if piped else path.stat().st_size,
                )
            )
        except* EngramqError as group:
            fault = next(iter(_leaves(group))).fault
            click.echo(
                f"engramq import: {fault.error} {fault.recovery} What is in stays; run the same command again.",
                err=True,
            )
            context.exit(FAILED)
    click.echo("  ".join(f"{status} {counts[status]}" for status in ReceiptStatus))
    if degraded:
        click.echo(
            "Some rows wait for their vectors (the embedder did not answer); they are found by text until then.",
            err=True,
        )
    if counts[ReceiptStatus.REJECTED]:
        where = rejects or (None if piped else path.with_name(path.name + ".rejects.jsonl"))
        click.echo(f"Rejected rows, with line, field and reason: {where or 'above'}", err=True)
        context.exit(SOME_REJECTED)


def _leaves(group: BaseExceptionGroup[EngramqError]) -> list[EngramqError]:
    found: list[EngramqError] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
