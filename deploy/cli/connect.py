"""`engramq connect`: write engramq into the configuration of an MCP client, or take it out."""

import os
from pathlib import Path

import click

from engramq.deploy.connect.catalogue import CLIENTS, Client, UserPlaces, how_started
from engramq.deploy.connect.configuration import add_entry, entry_in, file_of, remove_entry, snippet
from engramq.deploy.connect.files import Rewrite, Unchangeable
from engramq.schemas.command_line import CommandFailed


def surroundings() -> UserPlaces:
    """Return where this user, this project and this system keep files."""
    return UserPlaces(Path.home(), os.environ, Path.cwd())


@click.command("connect")
@click.argument("client", required=False, type=click.Choice(list(CLIENTS)), metavar="CLIENT")
@click.option("--print", "show", is_flag=True, help="Print the entry and where it belongs; write nothing.")
@click.option("--remove", is_flag=True, help="Take the entry out again.")
@click.option("--project", is_flag=True, help="In the file of the project in this folder, not in the user's.")
@click.option("--list", "listed", is_flag=True, help="List the clients, their files, and which have the entry.")
def command(*, client: str | None, show: bool, remove: bool, project: bool, listed: bool) -> None:
    """Write engramq into the configuration of an MCP client, or take it out.

    The client then starts engramq by itself. CLIENT is claude-code, claude-desktop, cursor, vscode, codex, gemini,
    windsurf or opencode. The file before is kept beside it, and the same twice changes nothing. Restart the client
    afterwards. See docs/connect.md.
    """
    if listed:
        _list(surroundings())
        return
    if client is None:
        raise click.UsageError(f"Name a client ({', '.join(CLIENTS)}), or --list them.")
    if show and remove:
        raise click.UsageError("--print and --remove exclude each other.")
    chosen, at = CLIENTS[client], surroundings()
    path = file_of(chosen, at, project=project)
    entry = chosen.started(how_started(), at, project=project)
    if show:
        click.echo(f"{chosen.title}: {path}", err=True)
        click.echo(snippet(chosen, entry), nl=False)
    elif remove:
        _tell(chosen, "is out of", remove_entry(path, chosen).changed, path, "is not in")
    else:
        done = add_entry(path, chosen, entry)
        _tell(chosen, "is in", done.changed, path, "is already in")
        tell_backup(done)


def tell_backup(done: Rewrite) -> None:
    """Say where the former file is kept, if there was one."""
    if done.backup is not None:
        click.echo(f"The file before is kept in {done.backup}")


def _tell(client: Client, is_now: str, changed: bool, path: Path, was: str) -> None:
    click.echo(f"engramq {is_now if changed else was} {path}{f'. Restart {client.title}.' if changed else ''}")


def _list(at: UserPlaces) -> None:
    for client in CLIENTS.values():
        path = client.user(at)
        click.echo(f"{client.name:<15}  {_state(client, path):<13}  {path}")


def _state(client: Client, path: Path) -> str:
    if not path.exists():
        return "no file"
    try:
        return "connected" if entry_in(path, client) is not None else "not connected"
    except (CommandFailed, Unchangeable):
        return "unreadable"
