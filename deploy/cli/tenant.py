"""The options of `engramq tenant`."""

from __future__ import annotations

import click

from engramq.deploy.cli.export import audit_option, embeddings_option, file_argument, write_export
from engramq.deploy.servers_for import servers_for
from engramq.schemas.setting_values import language, namespace

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("tenant", subcommand_metavar="list|config|export|delete", no_args_is_help=False)
def command() -> None:
    """List, configure, export and delete whole namespaces."""


@command.command("list")
@click.option("--all", "empty", is_flag=True, help="Those too of which only the audit log is left.")
@json_option
@click.pass_obj
def list_(supervisor: tuple[str, ...], *, empty: bool, as_json: bool) -> None:
    """Show every namespace and what it holds."""
    with servers_for("tenant", supervisor) as settings:
        from engramq.workers.cli.tenant_command import list_tenants  # noqa: PLC0415 - psycopg, wasted on wrong options

        list_tenants(settings, empty=empty, as_json=as_json)


@command.command("config")
@click.argument("tenant", metavar="NAMESPACE", type=namespace)
@click.option("--language", metavar="NAME", help="Stem words by this language from now on.", type=language)
@json_option
@click.pass_obj
def config(supervisor: tuple[str, ...], tenant: str, language: str | None, *, as_json: bool) -> None:
    """Show how a namespace is configured, or change it.

    A new language holds for what is stored and asked from now on; the words of what is there are made anew in the
    background, and searches find it meanwhile. See docs/languages.md.
    """
    with servers_for("tenant", supervisor) as settings:
        from engramq.workers.cli.tenant_command import configure_tenant  # noqa: PLC0415 - psycopg, wasted on wrong options

        configure_tenant(settings, tenant, language=language, as_json=as_json)


@command.command("export")
@click.argument("tenant", metavar="NAMESPACE", type=namespace)
@file_argument
@audit_option
@embeddings_option
@click.pass_obj
def export(supervisor: tuple[str, ...], tenant: str, file: str, *, audit: bool, embeddings: bool) -> None:
    """Write all of a namespace to a file, as JSON lines, which engramq import restores.

    FILE - is standard output; a file must not be there yet. See docs/export.md for the format.
    """
    write_export(supervisor, "tenant", file, tenant, audit=audit, embeddings=embeddings)


@command.command("delete")
@click.argument("tenant", metavar="NAMESPACE", type=namespace)
@click.option("--yes", is_flag=True, help="Delete it. Without it you are only told what it holds.")
@click.option("--reason", metavar="TEXT", help="For the audit log.")
@json_option
@click.pass_obj
def delete(supervisor: tuple[str, ...], tenant: str, reason: str | None, *, yes: bool, as_json: bool) -> None:
    """Tell what a namespace holds, then erase it for good.

    With --yes everything goes: bearer tokens first, then links, edges, memories and nodes, what was deleted and could
    be restored, proposals, stored replies, session state and what is still queued. The audit log stays, without
    reasons and values of properties. Broken off, the same command goes on.
    """
    from engramq.gateway.operator import checked_command  # noqa: PLC0415 - help does without
    from engramq.schemas.commands import DeleteTenant  # noqa: PLC0415 - see above

    wanted = checked_command({} if reason is None else {"reason": reason}, DeleteTenant)
    with servers_for("tenant delete", supervisor) as settings:
        from engramq.deploy.cli.tenant_delete import delete_tenant  # noqa: PLC0415 - 1 s of imports, see gateway

        delete_tenant(wanted, settings, namespace=tenant, yes=yes, as_json=as_json)
