"""PostgreSQL's own programs as clients of a server that a move has started."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from engramq.deploy.embedded import process
from engramq.deploy.embedded.postgres import OWNER_ROLE, Postgres
from engramq.deploy.home import DeployError

Rows = dict[str, int]
"""How many rows each table has, by schema and name."""

BOUND_S: Final = 6 * 3_600.0  # indexes of vectors are built at some 3,000 rows a second
JOBS: Final = "--jobs=2"

_FOLDER: Final = Path(__file__).parent  # of the .sql files, which psql reads itself


class Clients:
    """What a move asks of one server. Every method raises DeployError with what the program said."""

    def __init__(self, server: Postgres, port: int) -> None:
        self._server = server
        self._port = port

    def databases(self) -> list[str]:
        """Return the names of all databases but those that every cluster has."""
        return self._asked("postgres", "databases.sql").splitlines()

    def rows(self, database: str) -> Rows:
        """Return how many rows every table has, those of partitions each by itself."""
        told = self._asked(database, "rows.sql")
        pairs = (line.rsplit("\t", 1) for line in told.splitlines())
        return {table: int(count) for table, count in pairs}

    def roles(self) -> str:
        """Return statements that make all roles but the owner, whom a new cluster has."""
        told = self._run("pg_dumpall", "--roles-only", "--database=postgres")
        return re.sub(rf"^(CREATE|ALTER) ROLE {OWNER_ROLE}\b.*\n", "", told, flags=re.M)

    def make_roles(self, statements: str) -> None:
        """Carry out what `roles` has returned."""
        self._run("psql", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--dbname=postgres", "--file=-", given=statements)

    def dump(self, database: str, target: Path) -> None:
        """Write a database to a file."""
        self._run("pg_dump", "--format=custom", "--compress=1", f"--file={target}", database)

    def restore(self, database: str, source: Path) -> None:
        """Make a database of a dump, with statistics for the planner."""
        self._run("createdb", database)
        self._run("pg_restore", "--exit-on-error", JOBS, f"--dbname={database}", str(source))
        self._run("vacuumdb", "--analyze-only", "--quiet", f"--dbname={database}")

    def _asked(self, database: str, file: str) -> str:
        return self._run(
            *("psql", "--no-psqlrc", "--tuples-only", "--no-align", "--field-separator=\t"),
            *("--set=ON_ERROR_STOP=1", f"--dbname={database}", f"--file={_FOLDER / file}"),
        )

    def _run(self, program: str, *arguments: str, given: str = "") -> str:
        launch = self._server.by_caller(program, f"--port={self._port}", *arguments)
        done = process.run(launch, BOUND_S, given)
        if done.returncode != 0:
            raise DeployError(
                "upgrade_failed",
                f"{program} failed: {done.stderr.strip()[-500:]}",
                "The old files are what they were; see upgrade.log in the home's folder logs.",
            )
        return done.stdout
