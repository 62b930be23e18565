"""`engramq migrate`: bring the database's schema up to this version."""

import click

from engramq.deploy.local.servers_for import servers_for
from engramq.schemas.setting_values import number
from engramq.workers.migrating import migrate, require_database, run, to_be_sharded

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
        require_database(settings)
        applied = run(migrate(settings.database_url, wait_s=wait_s))
        for name in applied:
            print(f"applied {name}")
        if not applied:
            print("nothing to apply: the database is up to date")
        if run(to_be_sharded(settings.database_url)):
            told = "the database has Citus, and its tables are on one node: run deploy/citus.sql, before"
            print(f"{told} anything is stored")
