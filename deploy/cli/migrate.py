"""The options of `engramq migrate`."""

from __future__ import annotations

import click

from engramq.deploy.servers_for import servers_for
from engramq.schemas.setting_values import number

WAIT_MAX_S = 86_400.0


@click.command("migrate")
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    type=number(0, WAIT_MAX_S),
    default="0",
    help="Wait so long for a server that is not there yet.",
)
def command(wait_s: float) -> None:
    """Bring the database's schema up to this version.

    ENGRAMQ_DATABASE_URL has to name a role that owns the database.
    """
    with servers_for("migrate") as settings:
        from engramq.workers.cli.migrate_command import migrate_database  # noqa: PLC0415 - psycopg, wasted on wrong options

        migrate_database(settings, wait_s=wait_s)
