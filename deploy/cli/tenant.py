"""`engramq tenant`: list, configure and delete whole namespaces."""

import contextlib
import shlex
from functools import partial
from typing import Any, Final

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.operating import queue_client
from engramq.deploy.cli.output import json_line, print_list, quoted, refusal_text
from engramq.deploy.cli.tool_client import ToolClient
from engramq.deploy.local.servers_for import servers_for
from engramq.gateway.operator import checked_command
from engramq.schemas.codec import reply_body
from engramq.schemas.command_line import CommandFailed, ExitCode, count_of, memories
from engramq.schemas.commands import DeleteTenant, DescribeTenant, TenantDeleted, TenantDescribed
from engramq.schemas.envelope import PrincipalId
from engramq.schemas.faults import EngramqError
from engramq.schemas.ids import format_time
from engramq.schemas.setting_values import language, namespace, principal
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import Visibility
from engramq.workers.admin import Privacy, TenantContents, configure, hand_over, in_database, tenants

DEFAULT: Final = "default"


@click.group("tenant", subcommand_metavar="list|config|hand-over|delete", no_args_is_help=False)
def command() -> None:
    """List, configure and delete whole namespaces."""


@command.command("list")
@click.option("--all", "empty", is_flag=True, help="Those too of which only the audit log is left.")
@common.JSON
def list_(*, empty: bool, as_json: bool) -> None:
    """Show every namespace and what it holds."""
    with servers_for("tenant") as settings:
        listed = [(name, held) for name, held in in_database(settings, tenants) if held or empty]
    none = "engramq tenant: there is no namespace that holds anything"
    print_list(listed, _format_tenant, as_json=as_json, none=none, to_json=_json)


@command.command("config")
@click.argument("tenant", metavar="NAMESPACE", type=namespace)
@click.option("--language", metavar="NAME", help="Stem words by this language from now on.", type=language)
@click.option(
    "--visibility", type=click.Choice([*(word.value for word in Visibility), DEFAULT]),
    help="Visibility of memories that state none; default: shared, but captures among several are private.",
)  # fmt: skip
@click.option("--consent/--no-consent", default=None, help="Sharing what is private takes somebody else's consent.")
@click.option("--admins-read/--admins-do-not-read", default=None, help="Administrators may read what is private.")
@common.JSON
def config(tenant: str, language: str | None, *, as_json: bool, **private: Any) -> None:
    """Show how a namespace is configured, or change it.

    How private memories are kept everybody in the namespace sees, by memory_stats. See docs/private.md.

    A new language holds for what is stored and asked from now on; the words of what is there are made anew in the
    background, and searches find it meanwhile. See docs/languages.md.
    """
    with servers_for("tenant") as settings:
        configured = configure(settings, tenant, language, private)
    if configured is None:
        raise CommandFailed(f"There is no namespace {tenant!r}; engramq tenant list shows all.")
    words, privacy = configured
    if as_json:
        click.echo(json_line({**words.as_reply, "private": privacy.as_reply}, namespace=tenant))
        return
    far = words.as_reply.get("rebuilding")
    anew = "" if far is None else f", words made anew: {far['done']:,} of {memories(far['total'])}"
    click.echo(f"{quoted(tenant)}  language {words.language}{anew}{_format_privacy(privacy)}")


def _format_privacy(privacy: Privacy) -> str:
    said = (
        f"visibility {privacy.visibility}" if privacy.visibility else "",
        "sharing takes consent" if privacy.consent else "",
        "administrators read what is private" if privacy.admins_read else "",
    )
    return "".join(f", {words}" for words in said if words)


@command.command("hand-over")
@click.argument("tenant", metavar="NAMESPACE", type=namespace)
@click.argument("leaving", metavar="FROM", type=principal)
@click.argument("heir", metavar="TO", type=principal)
@click.option("--untrusted", is_flag=True, help="FROM is the untrusted principal of that name.")
@click.option("--new-name", is_flag=True, help="Let TO be somebody whom no token and no memory knows yet.")
@click.option("--yes", is_flag=True, help="Do it. Without it the command only counts these memories.")
@common.JSON
def hand_over_private(
    tenant: str, leaving: str, heir: str, *, untrusted: bool, new_name: bool, yes: bool, as_json: bool
) -> None:
    """Let a principal own what is private to another one, who leaves.

    TO, by any of its tokens, then sees these memories and nobody else does. Revoke the tokens of FROM first. engramq
    purge --created-by FROM --private erases memories that are to go instead.
    """
    if leaving == heir and not untrusted:
        raise click.UsageError("FROM and TO are the same principal.")
    with servers_for("tenant hand-over") as settings:
        ends = PrincipalId(leaving, untrusted), PrincipalId(heir)
        count = hand_over(settings, tenant, *ends, new_name=new_name, dry_run=not yes)
    if count is None:
        raise CommandFailed(f"There is no namespace {tenant!r}; engramq tenant list shows all.")
    if as_json:
        click.echo(json_line({"memories": count, "done": yes}, namespace=tenant))
        return
    whose = f"{memories(count)} private to {quoted(leaving)}"
    click.echo(f"Handed over to {quoted(heir)}: {whose}." if yes else f"{whose}.")
    if not yes:
        click.echo("Nothing is handed over: --yes does it.", err=True)


@command.command("delete")
@click.argument("tenant", metavar="NAMESPACE", type=namespace)
@click.option("--yes", is_flag=True, help="Delete it. Without it you only see what it holds.")
@common.REASON
@common.JSON
def delete(tenant: str, reason: str | None, *, yes: bool, as_json: bool) -> None:
    """Tell what a namespace holds, then erase it for good.

    With --yes everything goes: bearer tokens first, then webhooks, links, edges, memories and nodes, what was deleted
    and could be restored, proposals, stored replies, session state and what is still queued. The audit log stays,
    without reasons and values of properties. Broken off, the same command goes on.
    """
    wanted = checked_command({} if reason is None else {"reason": reason}, DeleteTenant)
    with servers_for("tenant delete") as settings:
        try:
            found, done = _delete(settings, tenant, wanted, yes=yes, as_json=as_json)
        except EngramqError as refusal:
            text = refusal_text(refusal.fault.error, refusal.fault.recovery)
            raise CommandFailed(text, ExitCode.MIDWAY) from None
    if found.status == "not_found":
        raise CommandFailed(f"There is no namespace {tenant!r}. {found.hint}")
    if as_json:
        click.echo(json_line(reply_body(done or found), namespace=tenant))
    elif done is not None:
        click.echo(f"Deleted {_format_counts(done)} of namespace {tenant!r}. Who did it, and when:")
        click.echo(f"engramq audit --namespace {shlex.quote(tenant)} --command {done.command_id}")
    else:
        webhooks = f", {count_of(found.webhook_count, 'webhook')}" if found.webhook_count else ""
        click.echo(f"{_format_counts(found)}{webhooks}; {count_of(found.content_bytes, 'byte')} of contents.")
        click.echo(f"This is what namespace {tenant!r} holds. Nothing is deleted: --yes does it.", err=True)


def _format_counts(held: TenantDescribed | TenantDeleted) -> str:
    graph = ((held.node_count, "node"), (held.edge_count, "edge"), (held.link_count, "link"))
    counted = [count_of(number, word) for number, word in (*graph, (held.token_count, "token"))]
    return ", ".join((memories(held.memory_count), *counted))


def _delete(
    settings: Settings, namespace: str, deletion: DeleteTenant, *, yes: bool, as_json: bool
) -> tuple[TenantDescribed, TenantDeleted | None]:
    """Return what was found, and what was done if it was to be.

    An empty namespace is deleted too: a deletion that was broken off may have left stored replies.
    """
    with queue_client(settings, namespace) as client:
        found = client.reply_to(DescribeTenant(), TenantDescribed)
        if not yes or found.status == "not_found":
            return found, None
        progress = None if as_json else partial(_tell_progress, client, found)
        return found, client.reply_to(deletion, TenantDeleted, progress=progress)


def _tell_progress(client: ToolClient, found: TenantDescribed) -> None:
    with contextlib.suppress(EngramqError):
        gone = max(0, found.memory_count - client.reply_to(DescribeTenant(), TenantDescribed).memory_count)
        click.echo(f"{gone} of {memories(found.memory_count)} deleted", err=True)


def _json(tenant: tuple[str, TenantContents]) -> str:
    name, held = tenant
    return json_line(held, namespace=name, memories=held.memories)


def _format_tenant(tenant: tuple[str, TenantContents]) -> str:
    name, held = tenant
    states = ", ".join(f"{count} {state}" for state, count in sorted(held.by_state.items()))
    last = "never" if held.last_activity is None else format_time(held.last_activity)
    counts = (
        *((held.bytes, "byte"), (held.nodes, "node"), (held.edges, "edge"), (held.links, "link")),
        (held.tokens, "access token"),
    )
    parts = [
        quoted(name),
        memories(held.memories) + (f" ({states})" if states else ""),
        *(count_of(number, word) for number, word in counts),
        f"last written {last}",
        held.language,
    ]
    return "  ".join(parts)
