"""`engramq rules`: print what AGENTS.md or CLAUDE.md should say of the memory, or write it there."""

from __future__ import annotations

from pathlib import Path

import click

from engramq.deploy.connect.files import read_text, replace_text
from engramq.deploy.connect.rules import RULES, TornMarks, with_rules, without_rules
from engramq.schemas.command_line import CommandFailed


@click.command("rules")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--remove", is_flag=True, help="Take them out of FILE again.")
def command(*, file: Path | None, remove: bool) -> None:
    """Print what AGENTS.md or CLAUDE.md should say of the memory, or write it there.

    In FILE it stands between two marks. The same twice changes nothing; the file before is kept beside it.
    """
    if file is None:
        if remove:
            raise click.UsageError("Name the file to take the rules out of.")
        click.echo(RULES, nl=False)
        return
    found = read_text(file)
    try:
        wanted = without_rules(found) if remove else with_rules(found)
    except TornMarks as problem:
        raise CommandFailed(f"{file}: {problem}. Nothing was written.") from None
    if wanted == found:
        click.echo(f"{file} {'has no rules of engramq' if remove else 'has the rules already'}")
        return
    backup = replace_text(file, wanted)
    click.echo(f"The rules are {'out of' if remove else 'in'} {file}")
    if backup is not None:
        click.echo(f"The file before is kept in {backup}")
