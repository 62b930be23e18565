"""The options of `engramq audit`."""

from __future__ import annotations

from typing import Any, Final

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.options import end_time, identifier, limit_option
from engramq.deploy.servers_for import servers_for
from engramq.schemas.ids import parse_time
from engramq.schemas.setting_values import name, one_of
from engramq.schemas.vocabulary import AuditAction

SHOWN: Final = 100
SHOWN_MAX: Final = 100_000


@click.command("audit")
@common.NAMESPACE
@click.option("--action", metavar="WORD", type=one_of(AuditAction), help=f"Any of {', '.join(AuditAction)}.")
@click.option("--actor", metavar="NAME", type=name, help="The principal who did it.")
@click.option(
    "--target",
    "target_id",
    metavar="ID",
    type=identifier,
    help="A memory or a node, with its links or edges; or an edge.",
)
@click.option("--command", "command_id", metavar="ID", type=identifier, help="All that one command did.")
@click.option("--since", metavar="TIME", type=parse_time, help="A date, or a time with a zone.")
@click.option("--until", metavar="TIME", type=end_time, help="The same; included.")
@limit_option(SHOWN_MAX, SHOWN, "The newest so many.")
@common.JSON
def command(namespace: str | None, limit: int, *, as_json: bool, **wanted: Any) -> None:
    """Show who did what, newest last."""
    with servers_for("audit") as settings:
        from engramq.workers.cli.audit_command import show_audit  # noqa: PLC0415 - psycopg, wasted on wrong options

        show_audit(settings, namespace=namespace or settings.namespace, limit=limit, as_json=as_json, **wanted)
