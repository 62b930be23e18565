"""`engramq hooks`: let Claude Code, Codex or Gemini CLI recall and capture; and `engramq hook`, which they run."""

from collections.abc import Iterator

import click

from engramq.deploy.cli.connect import surroundings, tell_backup
from engramq.deploy.connect.catalogue import how_started
from engramq.deploy.connect.configuration import file_of
from engramq.deploy.connect.hook_entries import HOOK_CLIENTS, HookClient, add_hooks, snippet, uninstall
from engramq.deploy.local.hooks import run
from engramq.deploy.local.hooks.connection import capturer_of
from engramq.deploy.local.hooks.transcripts import CLIENTS

client_argument = click.argument("client", type=click.Choice(list(HOOK_CLIENTS)), metavar="CLIENT")
project_option = click.option("--project", is_flag=True, help="For the project in this folder alone.")


@click.group("hooks")
def command() -> None:
    """Let Claude Code, Codex or Gemini CLI recall and capture without being asked.

    The model gets what the memory knows at a session's start, with each prompt, and before it reads or changes a file.
    After each turn the hooks capture what was said, apart as untrusted. See docs/hooks.md; engramq doctor checks them.
    """


@command.command("install")
@client_argument
@click.option("--recall-captured", is_flag=True, help="Recall what was captured too, marked as data.")
@click.option("--no-capture", is_flag=True, help="Recall only.")
@click.option("--no-recall", is_flag=True, help="Capture only.")
@project_option
@click.option("--print", "show", is_flag=True, help="Print the entries and where they belong; write nothing.")
def install_command(
    *, client: str, recall_captured: bool, no_capture: bool, no_recall: bool, project: bool, show: bool
) -> None:
    """Add engramq's hooks to CLIENT.

    CLIENT is claude-code, codex or gemini; it then runs engramq at its events. Hooks of others stay as they are, and
    the file before is kept beside it. The same twice changes nothing.
    """
    if no_capture and no_recall:
        raise click.UsageError("--no-capture and --no-recall leave nothing to do.")
    chosen = HOOK_CLIENTS[client]
    path = file_of(chosen, surroundings(), project=project)
    events = tuple(dict.fromkeys((*(() if no_recall else chosen.recalling), *(() if no_capture else chosen.capturing))))
    # Without the second the start of a session would capture what earlier ones have left.
    given = {run.RECALL_CAPTURED: recall_captured, run.NO_CAPTURE: no_capture}
    options = [option for option, is_given in given.items() if is_given]
    if show:
        click.echo(f"{chosen.title}: {path}", err=True)
        click.echo(snippet(chosen, how_started(), events, options), nl=False)
        return
    done = add_hooks(path, chosen, how_started(), events, options)
    click.echo(f"The hooks are {f'in {path}. Restart {chosen.title}.' if done.changed else f'already in {path}'}")
    tell_backup(done)
    for line in _consequences(chosen, recalls=not no_recall, captures=not no_capture, recalls_captured=recall_captured):
        click.echo(line)


def _consequences(client: HookClient, *, recalls: bool, captures: bool, recalls_captured: bool) -> Iterator[str]:
    """Give what happens from now on, how to see it, and how to stop it; a sentence or two each."""
    command = f"engramq hooks install {client.name}"
    if client.wants:
        yield client.wants
    yield f"Hooks need a running stack: engramq connect {client.name} lets the client start it."
    if recalls:
        yield (
            "The model gets what the memory knows at a session's start and with each prompt, and what it knows of a "
            f"file when it {client.uses}. To stop that: {command} --no-recall"
        )
    if not captures:
        yield "Nothing that you or the model say is kept."
        return
    seen = "Models get it as data" if recalls_captured else "No model gets it before somebody has promoted it"
    yield (
        "All that you and the model say is kept from now on, as untrusted, without keys and passwords that are known "
        f"as such. {seen}. To stop that: {command} --no-capture"
    )
    yield "See what is kept: engramq list --partition untrusted --project '*'; on the page: engramq up --detach"
    yield f"Stop all of it: engramq hooks uninstall {client.name}"
    yield f"Erase what was kept: engramq purge --created-by {capturer_of(client.name)}"


@command.command("uninstall")
@client_argument
@project_option
def uninstall_command(*, client: str, project: bool) -> None:
    """Take engramq's hooks out of CLIENT.

    Captured turns stay: see engramq purge.
    """
    chosen = HOOK_CLIENTS[client]
    path = file_of(chosen, surroundings(), project=project)
    done = uninstall(path, chosen)
    click.echo(f"The hooks are {f'out of {path}. Restart {chosen.title}.' if done.changed else f'not in {path}'}")


@click.command("hook")
@click.argument("client", type=click.Choice(list(CLIENTS)), metavar="CLIENT")
@click.option(
    run.RECALL_CAPTURED, "recall_captured", is_flag=True, help="Recall what was captured too, marked as data."
)
@click.option(
    run.NO_CAPTURE, "no_capture", is_flag=True, help="Recall only; what earlier sessions still owe is left, too."
)
def hook(*, client: str, recall_captured: bool, no_capture: bool) -> int:
    """Handle one event of a client; engramq hooks has clients run it.

    CLIENT is claude-code, codex or gemini; the event is JSON on standard input. Always ends with 0, within 2 s.
    """
    options = {run.RECALL_CAPTURED: recall_captured, run.NO_CAPTURE: no_capture}
    return run.main([client, *(option for option, is_given in options.items() if is_given)])
