"""Gives a command of gateway or workers the servers it needs: the user's own, else the home's embedded ones."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from engramq.deploy import settings
from engramq.deploy.client import take_lease
from engramq.deploy.home import home_from

# A first start makes the database cluster and loads the model; slow disks take their time.
READY_BOUND_S = 180.0

_NEEDS = {
    "gateway": (settings.REDIS_URL,),
    "import": (settings.REDIS_URL,),
    "purge": (settings.REDIS_URL,),
    "worker": (settings.REDIS_URL, settings.DATABASE_URL),
    "migrate": (settings.DATABASE_URL,),
    "audit": (settings.DATABASE_URL,),
    "token": (settings.DATABASE_URL,),
}


@contextlib.contextmanager
def servers_for(command: str, arguments: list[str]) -> Iterator[None]:
    """Within the block the environment names a running server for each that `command` needs.

    Where it names all of them already nothing is started: the workers are then the user's own affair, too. Otherwise
    this process holds a lease on the home's stack, which is started if it does not run.

    Raises:
        DeployError: the embedded stack cannot be used.
    """
    missing = [name for name in _NEEDS[command] if not os.environ.get(name)]
    if not missing or {"--help", "-h"} & set(arguments):
        yield
        return
    environment = dict(os.environ)
    kind = "worker" if command == "worker" else "command"
    lease = take_lease(home_from(environment), kind, environment, READY_BOUND_S)
    if lease.differing:
        names = ", ".join(lease.differing)
        sys.stderr.write(f"engramq: the running stack has other values of {names}; engramq down lets them change.\n")
    # Migrations change what the owner owns; everybody else is the role that owns nothing.
    database = "owner_database_url" if command == "migrate" else "database_url"
    os.environ[settings.REDIS_URL] = lease.addresses["redis_url"]
    os.environ[settings.DATABASE_URL] = lease.addresses[database]
    try:
        yield
    finally:
        lease.close()
