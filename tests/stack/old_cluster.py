"""A home as a former release left it: memories of a real import in a cluster of PostgreSQL 16.

This release's schema needs 17, so the cluster is made of a dump, less what 16 does not know: a privilege, a setting.
"""

import os
import re
import shutil
from pathlib import Path

from engramq.deploy.embedded import process, versions
from engramq.deploy.embedded.postgres import OWNER_ROLE, POSTGRESQL, Postgres
from engramq.deploy.embedded.servers import lock_home, running_postgres
from engramq.deploy.home import Home
from engramq.deploy.upgrade import moving
from engramq.deploy.upgrade.clients import Rows

OLD = 16
BOUND_S = 100.0
# What PostgreSQL 17 brought.
UNKNOWN = re.compile(r"^(SET transaction_timeout|GRANT [^;]*MAINTAIN).*\n", re.M)


def age(home: Home) -> dict[str, Rows]:
    """Turn the home's cluster into one of PostgreSQL 16 with the same rows; returns how many each table has."""
    binaries = versions.old_binaries(OLD)
    lock = lock_home(home)
    try:
        with running_postgres(home) as server:
            statements, roles = _dumped(server)
        newer = server.data.rename(home.postgres / f"data.of-{POSTGRESQL}")
        _initialise(server, binaries)
        launch = server.beside(server.data, moving.OLD_PORT, binaries, fsync="off")
        with moving._running(server, launch, moving.OLD_PORT) as old:
            old.make_roles(roles)
            old._run("createdb", "engramq")
            old._run("psql", "--set=ON_ERROR_STOP=1", "--quiet", "--dbname=engramq", "--file=-", given=statements)
            rows = {"engramq": old.rows("engramq")}
        shutil.rmtree(newer)
    finally:
        os.close(lock)
    return rows


def _dumped(server: Postgres) -> tuple[str, str]:
    dump = process.run(server.by_caller("pg_dump", "engramq"), BOUND_S)
    roles = process.run(server.by_caller("pg_dumpall", "--roles-only", "--database=postgres"), BOUND_S)
    assert (dump.returncode, roles.returncode) == (0, 0), dump.stderr + roles.stderr
    kept = re.sub(rf"^(CREATE|ALTER) ROLE {OWNER_ROLE}\b.*\n", "", roles.stdout, flags=re.M)
    return UNKNOWN.sub("", dump.stdout), UNKNOWN.sub("", kept)


def _initialise(server: Postgres, binaries: Path) -> None:
    arguments = [f"--pgdata={server.data}", f"--username={OWNER_ROLE}", "--encoding=UTF8", "--no-sync"]
    arguments += ["--auth-local=peer", "--auth-host=reject", "--locale=C", "--lc-ctype=C.UTF-8", "--data-checksums"]
    done = process.run(server._launch("initdb", *arguments, binaries=binaries), BOUND_S)
    assert done.returncode == 0, done.stderr
