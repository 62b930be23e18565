"""`engramq backup`: save the home in a file; `engramq restore`: make a home of that, or bring back a memory."""

import os
from pathlib import Path
from typing import Final

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.output import draw_status, json_line, print_reply
from engramq.deploy.cli.progress import bytes_done
from engramq.deploy.cli.tool_client import open_client
from engramq.deploy.local.home import home_from
from engramq.schemas.command_line import ExitCode
from engramq.schemas.settings import read_settings

OF_BACKUPS: Final = ("force", "only_check", "trust_code")
OF_MEMORIES: Final = ("reason", "namespace")


@click.command("restore")
@click.argument("meant", metavar="ID_OR_FILE")
@click.option("--force", is_flag=True, help="For a backup, where the home holds something: move that aside within it.")
@click.option(
    "--trust-code", is_flag=True, help="For a backup: restore it though its database can run other code than engramq's."
)
@click.option("--check", "only_check", is_flag=True, help="For a backup: only check that it is whole and fits.")
@common.options(common.REASON, common.NAMESPACE)
@common.JSON
@click.pass_context
def command(
    context: click.Context, /, meant: str, *, reason: str | None, namespace: str | None, force: bool, only_check: bool,
    trust_code: bool, as_json: bool,
) -> ExitCode:  # fmt: skip
    """Bring back a memory, by its ID, or make a home of a backup, by its FILE.

    A memory may have been forgotten or replaced. ID may be the beginning of one, of 8 characters or more, if no other
    has that. A name that could be both is refused: write ./FILE then.

    A backup is checked to its end before anything is touched. The stack must not run. Broken off, the same command
    begins anew, and the stack does not start before. See docs/backup.md.
    """
    file = Path(meant)
    if common.BEGINNING.fullmatch(meant):
        if file.exists():
            raise click.UsageError(f"{meant} is a file here, and may be an id, too: for the file write ./{meant}.")
        common.refuse_options(context, OF_BACKUPS, f"a backup, and {meant} is an id")
        with open_client(namespace) as gateway:
            asked = {"memory_id": gateway.resolve_id(meant), **common.arguments({"reason": reason})}
            return print_reply(gateway.write("restore_memory", asked), draw_status, as_json=as_json)
    common.refuse_options(context, OF_MEMORIES, f"a memory, and {meant} is no id")
    if not file.is_file():
        raise click.UsageError(f"{meant!r} does not exist, or is no file; nor is it an id.")
    if only_check and (force or trust_code):
        raise click.UsageError("--check touches nothing: give it without --force and --trust-code.")
    _restore_backup(file, force=force, only_check=only_check, trust_code=trust_code, as_json=as_json)
    return ExitCode.DONE


def _restore_backup(file: Path, *, force: bool, only_check: bool, trust_code: bool, as_json: bool) -> None:
    read_settings(os.environ)
    from engramq.deploy.local.backup.restoring import named_code, restore_backup, verify_backup  # noqa: PLC0415 - psycopg, for backups alone

    home = home_from(os.environ)
    with bytes_done("done", hidden=as_json) as tell:
        if only_check:
            done = verify_backup(file, tell)
        else:
            done = restore_backup(home, os.environ, file, tell, force=force, trust_code=trust_code)
    moved_to = None if done.moved_to is None else str(done.moved_to)
    if as_json:
        result = {"restored": not only_check, "moved_to": moved_to, "bytes": done.bytes, "files": done.files}
        named = {"settings": list(done.settings), "code": list(done.code)}
        click.echo(json_line(done.header, home=str(home.path), file=str(file), **result, **named))
        return
    of_when = f"{done.bytes / 2**20:,.1f} MB of {done.header.made_at}, by engramq {done.header.engramq}"
    if done.settings:
        names = " and ".join(done.settings)
        click.echo(f"It has settings of PostgreSQL ({names}), which can name programs that the server runs.", err=True)
    if done.code:
        text = f"Its database can run what a database of this engramq has not: {named_code(done.code)}."
        click.echo(text, err=True)
    if only_check:
        click.echo(f"{file} is whole and fits: {of_when}.")
        return
    click.echo(f"Restored {home.path}: {of_when}.")
    if moved_to is not None:
        click.echo(f"Its former content is in {moved_to} now; remove that when you need it no more.")


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@common.JSON
def backup(file: Path, *, as_json: bool) -> None:
    """Save the home in a file, while it is used.

    FILE must not be there yet. It holds all that is stored, tokens too, and only its owner may read it; it lacks what
    Redis keeps, such as breadcrumbs. See docs/backup.md.
    """
    common.require_folder(file, "FILE")
    read_settings(os.environ)
    from engramq.deploy.local.backup.taking import back_up  # noqa: PLC0415 - psycopg, for backups alone

    home = home_from(os.environ)
    with bytes_done("saved", hidden=as_json) as tell:
        taken = back_up(home, os.environ, file, tell)
    if as_json:
        sizes = {"file_bytes": taken.file_bytes, "bytes": taken.bytes, "files": taken.files}
        click.echo(json_line(taken.header, home=str(home.path), file=str(file), **sizes))
        return
    click.echo(
        f"Saved {home.path} in {file}: {taken.file_bytes / 2**20:,.1f} MB of {taken.bytes / 2**20:,.1f} MB, "
        f"schema {taken.header.schema}. Keep it as safe as the home."
    )
