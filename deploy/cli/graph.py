"""The options of `engramq graph`."""

from __future__ import annotations

import click

from engramq.deploy.cli.options import limit_option
from engramq.deploy.servers_for import servers_for
from engramq.schemas.command_line import ExitCode
from engramq.schemas.setting_values import integer, namespace, note

SHOWN = 100
SHOWN_MAX = 1_000
ID_MAX = 10**18 - 1

namespace_option = click.option("--namespace", metavar="NAME", type=namespace, help="Default: ENGRAMQ_NAMESPACE.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("graph", subcommand_metavar="deleted|restore", no_args_is_help=False)
def command() -> None:
    """List deleted edges and nodes of the knowledge graph, and restore them.

    What an agent deletes, or purge with --archive, is kept for 30 days.
    """


@command.command("deleted")
@namespace_option
@limit_option(SHOWN_MAX, SHOWN, "The newest so many.")
@json_option
@click.pass_obj
def deleted(supervisor: tuple[str, ...], /, namespace: str | None, limit: int, *, as_json: bool) -> None:
    """List deletions that can be undone, newest last.

    Each begins with the ID that restore takes.
    """
    with servers_for("graph", supervisor) as settings:
        from engramq.deploy.cli.graph_command import list_deleted  # noqa: PLC0415 - 1 s of imports, see gateway

        list_deleted(settings, namespace=namespace or settings.namespace, limit=limit, as_json=as_json)


@command.command("restore")
@click.argument("audit_id", metavar="ID", type=integer(1, ID_MAX))
@namespace_option
@click.option("--reason", metavar="TEXT", type=note, help="For the audit log.")
@json_option
@click.pass_obj
def restore(
    supervisor: tuple[str, ...], /, audit_id: int, namespace: str | None, reason: str | None, *, as_json: bool
) -> ExitCode:
    """Bring back an edge, or a node with its edges, as it was.

    ID is that of the deletion in the audit log.
    """
    with servers_for("graph", supervisor) as settings:
        from engramq.deploy.cli.graph_command import restore_deleted  # noqa: PLC0415 - 1 s of imports, see gateway

        return restore_deleted(
            settings, namespace=namespace or settings.namespace, audit_id=audit_id, reason=reason, as_json=as_json
        )
