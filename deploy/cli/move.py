"""The options of `engramq move`."""

from __future__ import annotations

import click

from engramq.deploy.cli import options as common
from engramq.deploy.servers_for import servers_for
from engramq.schemas.setting_values import namespace


@click.command("move")
@click.argument("tenant", metavar="NAMESPACE", type=namespace)
@click.option("--to", metavar="NAME|URL", required=True, help="A database of ENGRAMQ_DATABASES, or primary.")
@click.option("--dry-run", is_flag=True, help="Check, and say what would be moved.")
@click.option("--abort", is_flag=True, help="Take back a move that was broken off.")
@common.JSON
def command(tenant: str, to: str, *, dry_run: bool, abort: bool, as_json: bool) -> None:
    """Move one namespace to another database while it is used.

    Its writes wait for a moment. Broken off, the same command goes on. Every worker has to have the same
    ENGRAMQ_DATABASES before. Takes URLs of roles that own the databases. See docs/scaling.md.
    """
    if dry_run and abort:
        raise click.UsageError("--dry-run and --abort cannot be used together.")
    with servers_for("move") as settings:
        from engramq.workers.cli.move_command import move_tenant  # noqa: PLC0415 - psycopg, wasted on wrong options

        move_tenant(settings, tenant, to=to, dry_run=dry_run, abort=abort, as_json=as_json)
