"""The options of `engramq import`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from engramq.deploy.servers_for import servers_for
from engramq.schemas.command_line import ExitCode
from engramq.schemas.setting_values import namespace
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import ForeignFormat, OnDuplicate, RowFormat

PIPE: Final = "-"
OF_CONVERSATIONS: Final = ("all_messages", "looked_through")
OF_ROWS: Final = ("on_duplicate", "batch", "rejects", "named_format", "split", *OF_CONVERSATIONS)


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


def _refuse_options(context: click.Context, names: tuple[str, ...], why: str) -> None:
    """Refuse options that say nothing of such a file."""
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is not click.core.ParameterSource.DEFAULT
        if given and parameter.name in names:
            raise click.UsageError(f"{parameter.opts[0]} is for {why}.")


@click.command("import")
@click.argument("file", metavar="FILE_OR_FOLDER", type=click.Path(exists=True, allow_dash=True))
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
    "named_format",
    type=click.Choice([str(word) for word in (*RowFormat, *ForeignFormat)]),
    help="How the rows are written, or what has written them. Default: as the content tells, if it does for sure.",
)
@click.option(
    "--split",
    is_flag=True,
    help="Make several memories of one thread, in order, of a text over 32,768 characters. Default: reject it.",
)
@click.option("--all-messages", is_flag=True, help="Of conversations, also what the system and tools have said.")
@click.option(
    "--trusted",
    "looked_through",
    is_flag=True,
    help="Of conversations: you have looked through them, so trust what was said.",
)
@click.option("--dry-run", is_flag=True, help="Tell what would be brought in and rejected; write nothing.")
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
    named_format: str | None,
    split: bool,
    all_messages: bool,
    looked_through: bool,
    dry_run: bool,
) -> ExitCode:
    """Load memories from files, other systems and notes, or restore an export.

    Rows are one JSON object per line, or a CSV with a first row of names, with the parameters of store_memory; FILE -
    is standard input. gzip, bzip2, xz and UTF-16 are told by themselves. What went in before is skipped. The exit code
    is 1 when rows were rejected, 3 when the import could not go on: the same command then goes on with the rest.

    Other systems: the file of MCP's memory server, mem0, OpenMemory, conversations of Claude and ChatGPT (as they were
    downloaded), folders of basic-memory and Obsidian. See docs/import.md.

    A file that engramq export has written is restored into a namespace that holds nothing: all of it, or nothing.
    """
    from engramq.deploy.importing.kind import is_export  # noqa: PLC0415 - help does without

    source = None if file == PIPE else Path(file)
    if source is not None and is_export(source):
        _refuse_options(context, OF_ROWS, "rows, and this file is an export")
        return _restore(context.obj, source, namespace=namespace, dry_run=dry_run)
    if rejects is not None:
        _require_writable(rejects, source)
    foreign = ForeignFormat(named_format) if named_format in set(ForeignFormat) else None
    if source is None and foreign is not None:
        raise click.UsageError("An export of another system is read twice: write it to a file, and import that.")
    from engramq.deploy.cli import import_command as importing  # noqa: PLC0415 - 1 s of imports, see gateway

    export = None
    if source is not None and (foreign is not None or named_format is None):
        export = importing.export_of(source, foreign, all_messages=all_messages, looked_through=looked_through)
    if export is None or export.format not in importing.CONVERSATIONS:
        _refuse_options(context, OF_CONVERSATIONS, "conversations, and this is none")
    if export is None and source is not None and source.is_dir():
        raise click.UsageError(f"{named_format} is the format of a file, and {file} is a folder.")
    options = importing.options_of(
        source,
        namespace=namespace,
        on_duplicate=OnDuplicate(on_duplicate),
        batch_size=batch,
        split=split,
        row_format=None if named_format is None or foreign is not None else RowFormat(named_format),
    )
    if dry_run:
        return importing.dry_run(export or source, read_settings(os.environ), options, rejects=rejects)
    with servers_for("import", context.obj) as settings:
        if export is not None:
            return importing.import_export(export, settings, options, rejects=rejects)
        return importing.import_memories(source, settings, options, rejects=rejects)


def _restore(supervisor: tuple[str, ...], source: Path, *, namespace: str | None, dry_run: bool) -> ExitCode:
    with servers_for("import of an export", supervisor) as settings:
        from engramq.deploy.cli.progress import Steps  # noqa: PLC0415 - help does without
        from engramq.workers.cli.restore_export import restore_export  # noqa: PLC0415 - psycopg, see export

        with Steps() as steps:
            restore_export(settings, source, namespace=namespace, dry_run=dry_run, tell=steps.tell)
    return ExitCode.DONE
