"""Give a command of gateway or workers the servers it needs: the user's own, else the home's embedded ones."""

import contextlib
import os
from collections.abc import Iterator, Mapping

import click

from engramq.deploy.local import settings
from engramq.deploy.local.home import home_from
from engramq.deploy.local.settings import with_embedder
from engramq.deploy.local.stack_hold import READY_BOUND_S, hold_stack
from engramq.schemas.settings import Settings, read_settings

_OF_QUEUE = ("audit", "check", "dead", "duplicates", "gateway", "graph", "import", "projects", "purge", "receipt")
_OF_DATABASE = ("export", "import of an export", "migrate", "tenant", "tenant hand-over", "token", "webhook")
_NEEDS = {
    **dict.fromkeys((*_OF_QUEUE, "tenant delete"), (settings.REDIS_URL,)),
    **dict.fromkeys(_OF_DATABASE, (settings.DATABASE_URL,)),
    **dict.fromkeys(("worker", "dead change", "purge --rewrite"), (settings.REDIS_URL, settings.DATABASE_URL)),
}
# Commands that change or lock the owner's tables; all others use the role that owns nothing.
_OWNERS = ("migrate", "purge --rewrite")
_SERVERS = ("gateway", "worker", "migrate")  # what a gateway itself runs on
_NOTHING: Mapping[str, str] = {}


@contextlib.contextmanager
def servers_for(command: str, given: Mapping[str, str] = _NOTHING) -> Iterator[Settings]:
    """Within the block runs every server that `command` needs; yields the settings that say where.

    Where the environment names all of them already nothing is started: the workers are then the user's own affair, too.
    Otherwise this process holds the home's stack, which is started if it does not run. `given` are
    variables that options stand for: they win over the environment.

    Raises SettingsError when a setting is bad; nothing was started; DeployError when the embedded stack cannot be used.
    """
    environment = {**os.environ, **given}
    if environment.get(settings.URL) and command not in _SERVERS:
        click.echo(f"engramq: this is about the servers of this machine; {settings.URL} is not asked.", err=True)
    home = home_from(environment)
    environment[settings.PRINCIPAL] = settings.principal_of(home, environment)
    chosen = read_settings(environment)
    if command in _OWNERS and chosen.migrate_database_url:
        environment[settings.DATABASE_URL] = chosen.migrate_database_url
        chosen = read_settings(environment)
    if all(environment.get(name) for name in _NEEDS[command]):
        yield chosen
        return
    kind = "worker" if command == "worker" else "command"
    hold = hold_stack(home, kind, environment, READY_BOUND_S)
    environment = with_embedder(home, environment)  # as its workers have it
    with contextlib.closing(hold):
        if hold.other_values:
            click.echo(f"engramq: {hold.other_values}", err=True)
        database = "owner_database_url" if command in _OWNERS else "database_url"
        environment[settings.REDIS_URL] = hold.addresses["redis_url"]
        environment[settings.DATABASE_URL] = hold.addresses[database]
        yield read_settings(environment)
