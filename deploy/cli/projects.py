"""`engramq projects`: list them, give one another name, merge one into another."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.operating import operating
from engramq.deploy.cli.output import ReplyBody, json_line, print_reply, printable
from engramq.deploy.cli.tool_client import URL, open_client
from engramq.deploy.local import settings
from engramq.deploy.local.home import home_from
from engramq.deploy.local.hooks import notes
from engramq.deploy.local.hooks.projects import KnownProject, known_projects, rename_project
from engramq.schemas.codec import reply_body
from engramq.schemas.command_line import CommandFailed, ExitCode, count_of, memories
from engramq.schemas.commands import ProjectRenamed, RenameProject
from engramq.schemas.setting_values import name
from engramq.schemas.vocabulary import EVERY_PROJECT, Partition

NO_PROJECT: Final = "-"  # how a list names what is in none


@click.group("projects", invoke_without_command=True, subcommand_metavar="[rename|merge]")
@common.options(common.NAMESPACE, common.JSON)
@click.pass_context
def command(context: click.Context, namespace: str | None, *, as_json: bool) -> ExitCode:
    """List projects with how many memories each has; rename or merge them.

    These are of both partitions, as lists show them; a dash is for memories of no project, and a star marks the project
    of the environment (ENGRAMQ_PROJECT). A terminal also shows the address or folder by which hooks know a project.
    Elsewhere each is one line, with tabs between project, memories and how many of them are untrusted.
    """
    if context.invoked_subcommand is not None:
        if namespace is not None or as_json:
            raise click.UsageError(f"Give options after {context.invoked_subcommand}.")
        return ExitCode.DONE
    with open_client(namespace) as gateway:
        reply = gateway.call("memory_stats", {"partitions": list(Partition)})
    known = {} if os.environ.get(URL) else known_projects(home_from(os.environ), _namespace(namespace))
    return print_reply(reply, lambda listed: _draw(listed, known), as_json=as_json)


@command.command("rename")
@click.argument("old", type=name)
@click.argument("new", type=name)
@common.options(common.NAMESPACE, common.JSON)
def rename(old: str, new: str, namespace: str | None, *, as_json: bool) -> None:
    """Call the project OLD from now on NEW.

    Its memories, its tokens and the folders by which hooks know it go along."""
    _rename(old, new, namespace, merge=False, as_json=as_json)


@command.command("merge")
@click.argument("old", type=name)
@click.argument("new", type=name)
@common.options(common.NAMESPACE, common.JSON)
def merge(old: str, new: str, namespace: str | None, *, as_json: bool) -> None:
    """Put everything of the project OLD into the project NEW. Nothing takes them apart again."""
    _rename(old, new, namespace, merge=True, as_json=as_json)


def _rename(old: str, new: str, namespace: str | None, *, merge: bool, as_json: bool) -> None:
    """Rename what the gateway keeps, then what this home's hooks know; what was never there is refused."""
    if EVERY_PROJECT in (old, new) or old == new:
        raise click.UsageError("Name two projects.")
    home, place = home_from(os.environ), _namespace(namespace)
    known = {} if os.environ.get(URL) else known_projects(home, place)
    if new in known and any(known[new]) and not merge:
        raise CommandFailed(f"{new!r} is a project already: engramq projects merge puts one into the other.")
    with operating("projects", namespace) as at:
        done = at.client.reply_to(RenameProject(old_name=old, new_name=new, merge=merge), ProjectRenamed)
        fields = at.fields
    if old in known:
        rename_project(home, place, old, new)
        notes.follow_renaming(home, place, old, new)
    elif not done.memory_count and not done.token_count:
        raise CommandFailed(f"Nothing that you see is in a project {old!r}: engramq projects lists them.")
    if as_json:
        click.echo(json_line(reply_body(done), **fields))
    else:
        tokens = f" and {count_of(done.token_count, 'token')}" if done.token_count else ""
        click.echo(f"{memories(done.memory_count)}{tokens} now in {printable(new)}")


def _namespace(named: str | None) -> str:
    return named or os.environ.get(settings.NAMESPACE) or settings.DEFAULT_NAMESPACE


def _draw(reply: ReplyBody, known: Mapping[str, KnownProject]) -> None:
    """Print projects with their memories: as a table on a terminal, else in lines with tabs between."""
    projects = reply["projects"]
    names = [NO_PROJECT if entry["project"] is None else printable(entry["project"]) for entry in projects]
    is_table, wide = sys.stdout.isatty() and projects, max(map(len, names), default=0)
    if is_table:
        click.echo(click.style(f"  {'PROJECT':<{wide}}  MEMORIES  UNTRUSTED{'  KNOWN BY' if known else ''}", bold=True))
    for shown, entry in zip(names, projects, strict=True):
        mark = "*" if entry["project"] and entry["project"] == reply["project"] else " "
        where = _known_by(known.get(entry["project"]))
        row = f"{mark} {shown:<{wide}}  {entry['memories']:>8}  {entry['untrusted_count']:>9}{where}"
        click.echo(row if is_table else f"{shown}\t{entry['memories']}\t{entry['untrusted_count']}")
    if not projects:
        click.echo("No memories.", err=True)
    if reply["projects_omitted"]:
        click.echo(f"{reply['projects_omitted']} more have fewer memories than these.", err=True)


def _known_by(project: KnownProject | None) -> str:
    """Return the address or folder that tells a project from namesakes, with how many more there are.

    Nothing tells one whose only folder is another project's now; it keeps its name, which its memories carry.
    """
    if project is None or not any(project):
        return ""
    folders = dict.fromkeys(str(Path(folder)).removesuffix("/.git") for folder in project.folders)
    first, *more = [*project.remotes, *folders]
    return f"  {printable(first)}" + (f" and {len(more)} more" if more else "")
