"""The options of `engramq import`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from engramq.deploy.servers_for import servers_for
from engramq.schemas.command_line import ExitCode
from engramq.schemas.setting_values import namespace
from engramq.schemas.vocabulary import OnDuplicate, RowFormat

PIPE: Final = "-"
OF_ROWS: Final = ("on_duplicate", "batch", "rejects", "row_format", "split")


def _require_writable(rejects: Path, source: Path | None) -> None:
    """Refuse a file for rejects that could not be written, before anything is imported."""
    if rejects.is_dir():
        raise click.BadParameter(f"{str(rejects)!r} is a directory.", param_hint="'--rejects'")
    if not rejects.exists():
        if not os.access(rejects.absolute().parent, os.W_OK):
            raise click.BadParameter(
                f"{str(rejects.parent)!r} is no folder that can be written to.", param_hint="'--rejects'"
            )
    elif not os.access(rejects, os.W_OK):
        raise click.BadParameter(f"{str(rejects)!r} cannot be written to.", param_hint="'--rejects'")
    elif source is not None and rejects.samefile(source):
        raise click.BadParameter(f"{str(rejects)!r} is the file that is to be imported.", param_hint="'--rejects'")


def _refuse_options_of_rows(context: click.Context) -> None:
    """Refuse options that say nothing of an export."""
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is not click.core.ParameterSource.DEFAULT
        if given and parameter.name in OF_ROWS:
            raise click.UsageError(f"{parameter.opts[0]} is for rows, and this file is an export.")


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--namespace",
    metavar="NAME",
    type=namespace,
    help="Put every row, or the export, there, whatever it names. Default: what it names, else ENGRAMQ_NAMESPACE.",
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
@click.option(
    "--format",
    "row_format",
    type=click.Choice([str(word) for word in RowFormat]),
    help="How the rows are written. Default: as the name, or the first line, tells.",
)
@click.option(
    "--split",
    is_flag=True,
    help="Make several memories of one thread, in order, of a text over 32,768 characters. Default: reject it.",
)
@click.option("--dry-run", is_flag=True, help="Check an export, and whether it could be restored; write nothing.")
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    file: str,
    namespace: str | None,
    on_duplicate: str,
    batch: int,
    rejects: Path | None,
    row_format: str | None,
    split: bool,
    dry_run: bool,
) -> ExitCode:
    """Load memories from a JSONL or CSV file, or restore an export.

    One object per line, or one row with a first row of names, with the parameters of store_memory; FILE - is standard
    input. gzip, bzip2, xz and UTF-16 are told by themselves. A row that went in before is skipped. The exit code is 1
    when rows were rejected, 3 when the import could not go on: the same command then goes on with the rest.

    A file that engramq export has written is restored into a namespace that holds nothing: all of it, or nothing.
    """
    from engramq.gateway.cli.import_kind import is_export  # noqa: PLC0415 - help does without

    supervisor: tuple[str, ...] = context.obj
    source = None if file == PIPE else Path(file)
    if source is not None and is_export(source):
        _refuse_options_of_rows(context)
        with servers_for("import of an export", supervisor) as settings:
            from engramq.gateway.cli.progress import Steps  # noqa: PLC0415 - help does without
            from engramq.workers.cli.restore_export import restore_export  # noqa: PLC0415 - psycopg, see export

            with Steps() as steps:
                restore_export(settings, source, namespace=namespace, dry_run=dry_run, tell=steps.tell)
        return ExitCode.DONE
    if dry_run:
        if source is None or not source.is_file():
            raise click.UsageError("--dry-run is for exports. They are read twice: write it to a file first.")
        raise click.UsageError("--dry-run is for exports, and this file is none.")
    if rejects is not None:
        _require_writable(rejects, source)
    with servers_for("import", supervisor) as settings:
        from engramq.gateway.cli.import_command import import_memories  # noqa: PLC0415 - 1 s of imports, see gateway

        return import_memories(
            source,
            settings,
            namespace=namespace,
            on_duplicate=OnDuplicate(on_duplicate),
            batch_size=batch,
            rejects=rejects,
            split=split,
            row_format=None if row_format is None else RowFormat(row_format),
        )
