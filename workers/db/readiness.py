"""Check that the schema of a database is the one that this version was written for, or say why not."""

import hashlib
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import psycopg

from engramq.workers.db.errors import OF_TLS, describe_refusal, pools_statements, state_of
from engramq.workers.db.queries import sql

APPLIED: Final = sql("applied_migrations")
SERVED_BY: Final = sql("served_by")
_FOLDER: Final = Path(__file__).parent
_WHOLE: Final = "schema"
# The number of schema.sql in 0.1.0. Unreleased revisions had 30 migrations; their exports name these, and are read.
FIRST: Final = 31


class Reason(Enum):
    """Why a database cannot be worked with."""

    UNREACHABLE = auto()
    BEHIND = auto()  # `engramq migrate` mends it
    AHEAD = auto()  # a newer engramq has migrated it
    CHANGED = auto()  # schema.sql or a migration is not the one that was applied
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
            "Set ENGRAMQ_DATABASE_URL to the primary, or name all hosts in it: postgresql://role@one,two/database.",
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
        what = describe_refusal(error).rstrip(".")
        recovery = "See that it runs and that ENGRAMQ_DATABASE_URL is right."
        if what and state_of(error) in OF_TLS:
            recovery = "See sslmode, sslrootcert and the host in ENGRAMQ_DATABASE_URL."
        elif what:
            recovery = (
                "See that role, password and database in ENGRAMQ_DATABASE_URL are right. The workers' role is made by "
                "`engramq migrate` with a URL of the owner."
            )
        return cls(f"{what or 'PostgreSQL cannot be reached'}: {why}.", recovery, Reason.UNREACHABLE)


class Migration(NamedTuple):
    """SQL that brings a database to a version."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """A digest that tells whether the file was changed after it was applied."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class Schema(NamedTuple):
    """The SQL that makes a database of this release: `whole` for an empty one, `migrations` for an earlier release."""

    whole: Migration
    migrations: tuple[Migration, ...]

    @property
    def version(self) -> int:
        """The number of the last migration; `whole` has all of them in it."""
        return self.whole.version


@cache
def packaged(folder: Path = _FOLDER) -> Schema:
    """Return the schema of this release: schema.sql, and migrations/0032_name.sql and so on."""
    found = []
    for path in sorted((folder / "migrations").glob("*.sql")):
        number, _, name = path.stem.partition("_")
        found.append(Migration(int(number), name, path.read_text(encoding="utf-8")))
    newest = FIRST + len(found)
    if [migration.version for migration in found] != list(range(FIRST + 1, newest + 1)):
        raise ValueError(f"{folder}: migrations must be numbered from {FIRST + 1} without a gap")
    text = (folder / "schema.sql").read_text(encoding="utf-8")
    return Schema(Migration(newest, _WHOLE, text), tuple(found))


async def find_missing(connection: psycopg.AsyncConnection[Any], schema: Schema) -> tuple[Migration, ...]:
    """Return what this database has not had: the whole schema, or the last migrations.

    Raises NotReady for a database of a newer engramq, of an unreleased revision or of another program, and
    psycopg.Error.
    """
    try:
        rows = await (await connection.execute(APPLIED)).fetchall()
    except psycopg.errors.UndefinedTable:
        return (schema.whole,)
    except psycopg.errors.UndefinedColumn:
        raise NotReady(
            "The database has a table schema_migrations that engramq did not make.",
            "Give engramq a database of its own.",
            Reason.CHANGED,
        ) from None
    if not rows:
        return (schema.whole,)
    began, newest = rows[0], rows[-1]["version"]
    # What schema.sql was in an earlier release is not known here any more.
    if began["name"] != _WHOLE or (began["version"] == schema.version and began["checksum"] != schema.whole.checksum):
        raise NotReady(
            "The database was made by an unreleased revision of engramq, which this version cannot migrate.",
            "Nothing was changed. Run `engramq export` with the revision that made it, and `engramq import` into a new "
            "home or database.",
            Reason.CHANGED,
        )
    if newest > schema.version:
        raise NotReady(
            f"The database has schema {newest}, made by a newer engramq; this version knows {schema.version}.",
            "Upgrade engramq.",
            Reason.AHEAD,
        )
    applied = {row["version"]: row["checksum"] for row in rows[1:]}
    for migration in schema.migrations:
        if began["version"] < migration.version <= newest and applied.get(migration.version) != migration.checksum:
            raise NotReady(
                f"Migration {migration.version} ({migration.name}) is not the one that this database has had.",
                "Install the version of engramq that made the database, or restore a backup.",
                Reason.CHANGED,
            )
    return tuple(migration for migration in schema.migrations if migration.version > newest)


def lacks(behind: tuple[Migration, ...]) -> str:
    """Return what is wrong with a database that has not had these."""
    if behind[0].name == _WHOLE:
        return "The database has no schema yet."
    return f"The database has schema {behind[0].version - 1}; this version of engramq needs {behind[-1].version}."


async def require_own_session(connection: psycopg.AsyncConnection[Any]) -> None:
    """Return if the server's process that serves a connection is its own; raises NotReady behind a pooler.

    Locks and settings of a session would stay with the pooler. Raises psycopg.Error.
    """
    row = await (await connection.execute(SERVED_BY)).fetchone()
    if row is None or row["pid"] != connection.info.backend_pid:
        raise NotReady(
            "A pooler is before the database, and this takes a session of the server's own.",
            "Set ENGRAMQ_MIGRATE_DATABASE_URL to the server itself.",
        )


def require_utf8(connection: psycopg.AsyncConnection[Any]) -> None:
    """Return if the database holds texts in UTF-8; raises NotReady where it lacks characters, or keeps bytes alone."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in (None, "UTF8"):  # a pooler may leave it out
        raise NotReady(
            f"The database's encoding is {encoding}; engramq needs UTF8.",
            "Nothing was changed. Make one for it: CREATE DATABASE engramq TEMPLATE template0 ENCODING 'UTF8'.",
        )


async def check_schema(connection: psycopg.AsyncConnection[Any]) -> None:
    """Return if the schema is this version's; raises NotReady naming both otherwise, or psycopg.Error."""
    require_utf8(connection)
    try:
        behind = await find_missing(connection, packaged())
    except psycopg.errors.InsufficientPrivilege:  # the table was made by hand: schema.sql grants it
        problem = "The workers' role may not read the schema's version."
        raise NotReady(problem, "Run `engramq migrate`.", Reason.BEHIND) from None
    if behind:
        raise NotReady(lacks(behind), "Run `engramq migrate`.", Reason.BEHIND)
