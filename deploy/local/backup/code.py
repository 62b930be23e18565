"""Name the code of a restored database that is not this release's own, before any of it runs.

A login trigger, say, that copies to a program. The database is read by a PostgreSQL without a postmaster, which nobody
can connect to: it runs no triggers of events, no background work and no settings of roles. The expected code is read
from a database that this release makes beside.
"""

import base64
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.postgres import DATABASE, INITIAL_DATABASE, OWNER_ROLE, TEMPLATE, Postgres
from engramq.deploy.local.embedded.servers import running_postgres
from engramq.deploy.local.home import PRIVATE, DeployError, Home
from engramq.workers.migrating import migrate, run

READ_BOUND_S: Final = 3_600.0  # the first read replays what was written while the backup was taken
DATABASES: Final = (DATABASE, INITIAL_DATABASE, TEMPLATE)
_ANSWER: Final = re.compile(r'\t 1: code = "([A-Za-z0-9+/=]+)"')
# Files that have a server run commands, or follow another one, from its very start.
_ORDERS: Final = ("recovery.signal", "standby.signal")
_AUTO_SETTINGS: Final = "postgresql.auto.conf"
_CODE: Final = Path(__file__).with_name("code.sql").read_text(encoding="utf-8")


def foreign_code(data: Path) -> tuple[str, ...]:
    """Return what runs in this cluster that a database of this release does not have, or has otherwise.

    The folder is moved and comes back. Raises DeployError where PostgreSQL cannot read it.
    """
    if orders := [name for name in _ORDERS if (data / name).exists()]:
        return tuple(f"file {name}" for name in orders)
    scratch = Home(data.with_name("examined"))
    scratch.ensure()
    scratch.postgres.mkdir(mode=PRIVATE)
    place, auto = scratch.postgres / data.name, scratch.postgres / data.name / _AUTO_SETTINGS
    data.rename(place)
    settings = auto.read_bytes() if auto.exists() else b""
    try:
        if settings:
            auto.write_bytes(b"")  # they can name programs that the server runs
        found = _code_of(scratch)
    finally:
        if settings:
            auto.write_bytes(settings)
        place.rename(data)
        shutil.rmtree(scratch.path)
    with tempfile.TemporaryDirectory(prefix="eq-") as folder:
        own = _own_code(Home(Path(folder)))
    return tuple(sorted(_shown(name) for name, does in found.items() if own.get(name) != does))


def _shown(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name)


def _own_code(home: Home) -> dict[str, str]:
    """Return what a database of this release has, made for this, and the one beside ours in earlier homes."""
    home.ensure()
    with running_postgres(home) as server:
        run(migrate(server.url(OWNER_ROLE)))
    own = _code_of(home)
    for word in ("of", "database"):
        own |= {name.replace(f"{word} {TEMPLATE}", f"{word} {INITIAL_DATABASE}"): own[name] for name in own}
    return own


def _code_of(home: Home) -> dict[str, str]:
    """Return the code in the databases of a home's cluster, which nobody serves; raises DeployError."""
    server = Postgres(home)
    server.prepare()
    statement = " ".join(line for line in _CODE.splitlines() if not line.lstrip().startswith("--"))
    options = [f"config_file={home.postgres / 'engramq.conf'}", "search_path=pg_catalog", "event_triggers=off"]
    arguments = [f"-D{server.data}", *(part for option in options for part in ("-c", option))]
    found: dict[str, str] = {}
    for database in DATABASES:
        order = server.program("postgres", "--single", *arguments, database)
        try:
            done = process.run(order, READ_BOUND_S, f"{statement}\n")
        except subprocess.TimeoutExpired:
            raise _unreadable("it took an hour") from None
        if database == INITIAL_DATABASE and f'database "{database}" does not exist' in done.stderr:
            continue  # it has our name
        answer = _ANSWER.search(done.stdout)
        if done.returncode != 0 or answer is None:
            raise _unreadable(done.stderr.strip()[-500:])
        own = json.loads(base64.b64decode(answer[1]))
        found |= {name if database == DATABASE else f"{name} of {database}": does for name, does in own.items()}
    return found


def _unreadable(why: str) -> DeployError:
    return DeployError("backup_unreadable", f"PostgreSQL cannot read the database in the backup: {why}")
