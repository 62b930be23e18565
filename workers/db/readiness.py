"""Whether a database can be worked with: its schema is the one that this version was written for, or says why not."""

import hashlib
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import psycopg

from engramq.workers.db.errors import OF_TLS, named, pools_statements, state_of
from engramq.workers.db.queries import sql

APPLIED: Final = sql("applied_migrations")
SERVED_BY: Final = sql("served_by")
_FOLDER: Final = Path(__file__).with_name("migrations")


class Reason(Enum):
    """Why a database cannot be worked with."""

    UNREACHABLE = auto()
    BEHIND = auto()  # `engramq migrate` mends it
    AHEAD = auto()  # a newer engramq has migrated it
    CHANGED = auto()  # a migration is not the one that was applied
    STANDBY = auto()  # it takes no writes, unless it is promoted
    REFUSED = auto()  # rights or extensions are missing


class NotReady(Exception):
    """The database cannot be worked with: what is wrong, and how to mend it."""

    def __init__(self, message: str, recovery: str, reason: Reason = Reason.REFUSED) -> None:
        super().__init__(f"{message} {recovery}")
        self.message = message
        self.recovery = recovery
        self.reason = reason

    @classmethod
    def standby(cls) -> Self:
        """Return the exception for a server that only replays what another one writes."""
        return cls(
            "The server at ENGRAMQ_DATABASE_URL is a standby, which takes no writes.",
            "Set ENGRAMQ_DATABASE_URL to the primary; standbys of it are named in ENGRAMQ_DATABASE_REPLICAS.",
            Reason.STANDBY,
        )

    @classmethod
    def unreachable(cls, error: Exception) -> Self:
        """Return the exception for a server that cannot be reached or lets nobody in."""
        if pools_statements(error):
            return cls(
                "The pooler before the database lends sessions for one statement each, and engramq needs transactions.",
                "Set PgBouncer's pool_mode to transaction (or session) for this database.",
            )
        # libpq asks in a last line whether the server runs; the recovery does so too.
        told = [line for line in str(error).strip().splitlines() if not line.rstrip().endswith("?")]
        why = told[-1].strip().rstrip(".") if told else type(error).__name__
        what = named(error).rstrip(".")
        recovery = "See that it runs and that ENGRAMQ_DATABASE_URL is right."
        if what and state_of(error) in OF_TLS:
            recovery = "See sslmode, sslrootcert and the host in ENGRAMQ_DATABASE_URL."
        elif what:
            recovery = (
                "See that role, password and database in ENGRAMQ_DATABASE_URL are right. The workers' role is made by "
                "`engramq migrate` with a URL of the owner."
            )
        return cls(
            f"{what or 'PostgreSQL cannot be reached'}: {why}.",
            recovery,
            Reason.UNREACHABLE,
        )


class Migration(NamedTuple):
    """One .sql file, its number first in its name."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """A digest that tells whether the file was changed after it was applied."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@cache
def packaged(folder: Path = _FOLDER) -> tuple[Migration, ...]:
    """Return the migrations of this version in order."""
    found = []
    for path in sorted(folder.glob("*.sql")):
        number, _, name = path.stem.partition("_")
        found.append(Migration(int(number), name, path.read_text(encoding="utf-8")))
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"{folder}: migrations must be numbered from 1 without a gap")
    return tuple(found)


async def missing(connection: psycopg.AsyncConnection[Any], migrations: tuple[Migration, ...]) -> tuple[Migration, ...]:
    """Return the migrations that this database has not had.

    Raises NotReady when it has had others: newer ones, or one that was changed since. Raises psycopg.Error.
    """
    try:
        rows = await (await connection.execute(APPLIED)).fetchall()
    except psycopg.errors.UndefinedTable:
        return migrations
    applied = {row["version"]: row["checksum"] for row in rows}
    newest = max(applied, default=0)
    if newest > len(migrations):
        raise NotReady(
            f"The database has schema {newest}, made by a newer engramq; this version knows {len(migrations)}.",
            "Upgrade engramq.",
            Reason.AHEAD,
        )
    for migration in migrations[:newest]:
        if applied.get(migration.version) != migration.checksum:
            raise NotReady(
                f"Migration {migration.version} ({migration.name}) is not the one that this database has had.",
                "Install the version of engramq that made the database, or restore a backup.",
                Reason.CHANGED,
            )
    return migrations[newest:]


async def require_own_session(
    connection: psycopg.AsyncConnection[Any], recovery: str = "Set ENGRAMQ_MIGRATE_DATABASE_URL to the server itself."
) -> None:
    """Return if the server's process that serves a connection is its own; raises NotReady behind a pooler.

    What a session locks or sets would stay with the pooler. Raises psycopg.Error.
    """
    row = await (await connection.execute(SERVED_BY)).fetchone()
    if row is None or row["pid"] != connection.info.backend_pid:
        raise NotReady(
            "A pooler is before the database, and this takes a session of the server's own.",
            recovery,
        )


async def check_schema(connection: psycopg.AsyncConnection[Any]) -> None:
    """Return if the schema is this version's; raises NotReady naming both otherwise, or psycopg.Error."""
    try:
        behind = await missing(connection, packaged())
    except psycopg.errors.InsufficientPrivilege:  # the first migration grants it: it was begun, and did not end well
        problem = "The workers' role may not read the schema's version."
        raise NotReady(problem, "Run `engramq migrate`.", Reason.BEHIND) from None
    if behind:
        raise NotReady(
            f"The database has schema {behind[0].version - 1}; this version of engramq needs {behind[-1].version}.",
            "Run `engramq migrate`.",
            Reason.BEHIND,
        )
