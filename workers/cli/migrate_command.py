"""`engramq migrate`: the database's schema, brought up to this version."""

from engramq.schemas.settings import Settings
from engramq.workers.cli.running import require_database, run
from engramq.workers.db.migrate import migrate, to_be_sharded


def migrate_database(settings: Settings, *, wait_s: float) -> None:
    """Apply what is missing and print its names; wait so long for a server that is not there.

    Raises CommandFailed.
    """
    require_database(settings)
    applied = run(migrate(settings.database_url, wait_s=wait_s))
    for name in applied:
        print(f"applied {name}")
    if not applied:
        print("nothing to apply: the database is up to date")
    if run(to_be_sharded(settings.database_url)):
        print("the database has Citus, and its tables are on one node: run deploy/citus.sql, before anything is stored")
