"""All checks that can be made from here, in one list: of this machine, of the servers, and of what a gateway sees.

What has to be imported for a check is imported when there is something to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec

from engramq.deploy.local import settings as names
from engramq.deploy.local.doctor.local import (
    disk_check,
    door_checks,
    home_check,
    leftovers_check,
    stack_checks,
    with_pids,
)
from engramq.deploy.local.home import DeployError, Home, home_from
from engramq.deploy.local.lease import ask_status, connect
from engramq.deploy.local.settings import with_embedder
from engramq.schemas.checks import Check, CheckName, MailboxState, at_home, failed, merged, passed
from engramq.schemas.setting_values import can_be_used
from engramq.schemas.settings import Settings, SettingsError, read_settings


@dataclass(frozen=True)
class Examination:
    """What was found. `owner_url` and `settings` say where, for who mends it; None: the settings cannot be read."""

    checks: list[Check]
    mailboxes: list[MailboxState] = field(default_factory=list)
    settings: Settings | None = None
    owner_url: str = ""


def examine(environment: Mapping[str, str]) -> Examination:
    """Make every check that can be made, within about 20 s."""
    home = home_from(dict(environment))
    environment = with_embedder(home, environment)
    try:
        settings = read_settings(environment)
    except SettingsError as problem:
        return Examination(merged([failed(CheckName.SETTINGS, str(problem)), home_check(home), disk_check(home.path)]))
    found, answer = _here(home, settings, environment)
    addresses = answer.get("addresses") if answer is not None else None
    told = addresses if isinstance(addresses, dict) else {}
    own_url = settings.migrate_database_url or environment.get(names.DATABASE_URL)
    owner_url = own_url or _usable(told, "owner_database_url")
    urls = {name: _usable(told, key) for name, key in _ADDRESSES.items() if not environment.get(name)}
    settings = read_settings({**environment, **{name: url for name, url in urls.items() if url}})
    mailboxes: list[MailboxState] = []
    if answer is not None and not (settings.redis_url and settings.database_url):
        found += _told_by_gateway(answer)
    with ThreadPoolExecutor() as threads:
        looks = [threads.submit(look, settings) for look in _looks(settings)]
        for look in looks:
            checks, boxes = look.result()
            found += checks
            mailboxes += boxes
    checks = at_home(
        merged(found),
        redis=not environment.get(names.REDIS_URL),
        database=not environment.get(names.DATABASE_URL),
    )
    return Examination(with_pids(checks, answer or {}), mailboxes, settings, owner_url)


def before_start(environment: Mapping[str, str]) -> list[Check]:
    """Check what a start of the home's stack needs, within 10 s; nothing where it runs already.

    The database may lack migrations, which the start applies. Raises SettingsError.
    """
    home = home_from(dict(environment))
    settings = read_settings(with_embedder(home, environment))
    try:
        if (channel := connect(home)) is not None:
            channel.close()
            return []
    except DeployError as problem:
        return [failed(CheckName.HOME, problem.message, problem.recovery)]
    found = [home_check(home), disk_check(home.path), *door_checks(settings.host, settings.port, ours=False)]
    looks: list[_Look] = [_model_files]
    looks += [_redis_alone] if settings.redis_url else []
    looks += [_database_before_migration] if settings.database_url else []
    with ThreadPoolExecutor() as threads:
        for checks, _ in threads.map(lambda look: look(settings), looks):
            found += checks
    return merged(found)


_Found = tuple[list[Check], list[MailboxState]]
_Look = Callable[[Settings], _Found]
_ADDRESSES = {names.DATABASE_URL: "database_url", names.REDIS_URL: "redis_url"}


def _here(
    home: Home, settings: Settings, environment: Mapping[str, str]
) -> tuple[list[Check], dict[str, object] | None]:
    """Return the checks of this machine, and what the home's supervisor says; None where there is none."""
    found = [passed(CheckName.SETTINGS), home_check(home)]
    try:
        answer = ask_status(home)
    except DeployError as problem:
        return [*found, disk_check(home.path), failed(CheckName.STACK, problem.message, problem.recovery)], None
    if answer is not None:
        return [*found, disk_check(home.path), passed(CheckName.LEFTOVERS), *stack_checks(answer)], answer
    on_own_servers = all(environment.get(name) for name in _ADDRESSES)
    if not on_own_servers:
        found += [disk_check(home.path), leftovers_check(home)]
    return [*found, *door_checks(settings.host, settings.port, ours=on_own_servers)], None


def _usable(addresses: Mapping[str, object], name: str) -> str:
    """Return an address of a supervisor; nothing where its password is kept from us."""
    address = str(addresses.get(name, ""))
    return address if can_be_used(address) else ""


def _told_by_gateway(answer: Mapping[str, object]) -> list[Check]:
    """Return what the home's gateway says of servers that only its supervisor's environment leads to."""
    health = answer.get("health")
    return msgspec.convert(health.get("checks", []), list[Check]) if isinstance(health, dict) else []


def _looks(settings: Settings) -> list[_Look]:
    looks: list[_Look] = [_model]
    looks += [_database] if settings.database_url else []
    looks += [_overview] if settings.redis_url else []
    return looks


def _model(settings: Settings) -> _Found:
    from engramq.workers import doctor  # noqa: PLC0415 - numpy, wasted on a bad setting

    return [doctor.model_check(settings)], []


def _database(settings: Settings) -> _Found:
    from engramq.workers import doctor  # noqa: PLC0415 - psycopg, wasted where there is none to ask

    return doctor.database_checks(settings), []


def _overview(settings: Settings) -> _Found:
    from engramq.gateway import operator  # noqa: PLC0415 - redis, wasted where there is none to ask

    found = operator.overview(settings)
    return found.checks, found.mailboxes


def _model_files(settings: Settings) -> _Found:
    from engramq.workers import model_files  # noqa: PLC0415 - its package, wasted on a bad setting

    return [model_files.files_check(settings)], []


def _database_before_migration(settings: Settings) -> _Found:
    from engramq.workers import doctor  # noqa: PLC0415 - see _database

    return doctor.database_checks(settings, migrates=True), []


def _redis_alone(settings: Settings) -> _Found:
    from engramq.gateway import operator  # noqa: PLC0415 - see _overview

    return [operator.redis_alone(settings)], []
