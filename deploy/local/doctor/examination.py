"""Run all checks that can be made from here: of this machine, of the servers, and of what a gateway sees.

`mend` does what is safe without knowing more than the checks say.

A check imports its modules when there is something to look at.
"""

import os
import resource
import stat
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec

from engramq.deploy.local import settings as names
from engramq.deploy.local.doctor import machine
from engramq.deploy.local.embedded.process import wait_until
from engramq.deploy.local.home import PASSABLE, DeployError, Home, home_from, refuse_foreign
from engramq.deploy.local.ownership import dead_ups, lock_home, read_ownership, remove_leftover
from engramq.deploy.local.settings import with_embedder
from engramq.deploy.local.stack_hold import ask_status, open_channel
from engramq.deploy.local.supervisor.state import end_predecessor
from engramq.schemas.checks import Check, CheckName, at_home, failed, merged, passed
from engramq.schemas.passwords import can_be_used
from engramq.schemas.settings import Settings, SettingsError, read_settings

_IDLE = "Nothing runs here. `engramq up` starts it, and so does a client."
STOP_S = 30.0  # PostgreSQL has 13 s to stop, and the supervisor asks it last


@dataclass(frozen=True)
class Examination:
    """All checks. `owner_url` and `settings` say where to mend; None: the settings cannot be read."""

    checks: list[Check]
    settings: Settings | None = None
    owner_url: str = ""


def examine(environment: Mapping[str, str]) -> Examination:
    """Make every check that can be made, within about 20 s; of a stack that stops meanwhile once it has stopped."""
    home = home_from(dict(environment))
    found, runs = _examine(home, environment)
    if runs and any(check.state == "failed" for check in found.checks) and _has_stopped(home):
        found, _ = _examine(home, environment)
    return found


def _has_stopped(home: Home) -> bool:
    """Wait for the end of a stack that is being stopped; False for one that goes on."""
    try:
        answer = ask_status(home, brief=True)
        return answer is None or (bool(answer.get("stopping")) and wait_until(lambda: not _is_there(home), STOP_S))
    except DeployError:
        return False


def _is_there(home: Home) -> bool:
    if (channel := open_channel(home)) is not None:
        channel.close()
    return channel is not None


def _examine(home: Home, environment: Mapping[str, str]) -> tuple[Examination, bool]:
    """Make every check, and say whether the home's stack ran."""
    environment = with_embedder(home, environment)
    try:
        settings = read_settings(environment)
    except SettingsError as problem:
        checks = [failed(CheckName.SETTINGS, str(problem)), machine.home_check(home), machine.disk_check(home.path)]
        return Examination(merged(checks)), False
    checks, answer = _here(home, settings, environment)
    addresses = (answer or {}).get("addresses") or {}
    own_url = settings.migrate_database_url or environment.get(names.DATABASE_URL)
    owner_url = own_url or _usable(addresses, "owner_database_url")
    urls = {name: _usable(addresses, key) for name, key in _ADDRESSES.items() if not environment.get(name)}
    settings = read_settings({**environment, **{name: url for name, url in urls.items() if url}})
    if answer is not None and not (settings.redis_url and settings.database_url):
        # The home's gateway knows servers that only its supervisor's environment names.
        checks += msgspec.convert((answer.get("health") or {}).get("checks", []), list[Check])
    checks = at_home(
        merged([*checks, *_look(settings)]),
        redis=not environment.get(names.REDIS_URL),
        database=not environment.get(names.DATABASE_URL),
    )
    return Examination(machine.add_pids(checks, answer or {}), settings, owner_url), answer is not None


def before_start(environment: Mapping[str, str]) -> list[Check]:
    """Check what a start of the home's stack needs, within 10 s; nothing where it runs already.

    The database may lack migrations, which the start applies. Raises SettingsError.
    """
    home = home_from(dict(environment))
    settings = read_settings(with_embedder(home, environment))
    try:
        if _is_there(home):
            return []
    except DeployError as problem:
        return [failed(CheckName.HOME, problem.message, problem.recovery)]
    checks = [
        machine.home_check(home),
        machine.disk_check(home.path),
        *machine.door_checks(settings.host, settings.port, ours=False),
    ]
    checks.append(machine.descriptors_check(resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return merged([*checks, *_look_before_start(settings)])


_Examine = Callable[[], list[Check]]
_ADDRESSES = {names.DATABASE_URL: "database_url", names.REDIS_URL: "redis_url"}


def _look(settings: Settings) -> list[Check]:
    """Look at the model, the database and Redis, as far as there are such."""
    from engramq.workers import doctor  # noqa: PLC0415 - numpy and psycopg, wasted on a bad setting

    looks: list[_Examine] = [lambda: [doctor.model_check(settings)]]
    if settings.database_url:
        looks.append(lambda: doctor.database_checks(settings))
    if settings.redis_url:
        from engramq.gateway import operator  # noqa: PLC0415 - redis, wasted where there is none to ask

        looks.append(lambda: operator.overview(settings).checks)
    return _all_at_once(looks)


def _look_before_start(settings: Settings) -> list[Check]:
    """Look at the model's files, and at servers of the user's own."""
    from engramq.workers import model_files  # noqa: PLC0415 - its package, wasted on a bad setting

    looks: list[_Examine] = [lambda: [model_files.files_check(settings)]]
    if settings.redis_url:
        from engramq.gateway import operator  # noqa: PLC0415 - as above

        looks.append(lambda: [operator.redis_alone(settings)])
    if settings.database_url:
        from engramq.workers import doctor  # noqa: PLC0415 - as above

        looks.append(lambda: doctor.database_checks(settings, migrates=True))
    return _all_at_once(looks)


def _all_at_once(looks: Sequence[_Examine]) -> list[Check]:
    """Look at several things at the same time. Their imports came before: two of redis block each other."""
    with ThreadPoolExecutor() as threads:
        return [check for checks in threads.map(lambda look: look(), looks) for check in checks]


def _here(home: Home, settings: Settings, environment: Mapping[str, str]) -> tuple[list[Check], dict[str, Any] | None]:
    """Return the checks of this machine, and what the home's supervisor says; None where there is none."""
    checks = [machine.settings_check(settings), machine.home_check(home), machine.hooks_check(home)]
    try:
        answer = ask_status(home)
    except DeployError as problem:
        return [
            *checks,
            machine.disk_check(home.path),
            failed(CheckName.STACK, problem.message, problem.recovery),
        ], None
    if answer is not None:
        return [
            *checks,
            machine.disk_check(home.path),
            passed(CheckName.LEFTOVERS),
            *machine.stack_checks(answer),
        ], answer
    on_own_servers = all(environment.get(name) for name in _ADDRESSES)
    if not on_own_servers:
        checks += [machine.disk_check(home.path), machine.leftovers_check(home), passed(CheckName.STACK, _IDLE)]
        checks.append(machine.descriptors_check(resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return [*checks, *machine.door_checks(settings.host, settings.port, ours=on_own_servers)], None


def _usable(addresses: Mapping[str, object], name: str) -> str:
    """Return an address of a supervisor; nothing where its password is kept from us."""
    address = str(addresses.get(name, ""))
    return address if can_be_used(address) else ""


def mend(home: Home, examination: Examination) -> list[str]:
    """Mend what can be mended, and return what was done, a sentence each."""
    wrong = {check.name for check in examination.checks if check.state != "ok"}
    done: list[str] = []
    if CheckName.HOME in wrong and machine.is_open_to_others(home):
        done.append(_close(home))
    if CheckName.LEFTOVERS in wrong:
        done += _clear(home)
    if CheckName.SCHEMA in wrong and examination.owner_url:
        from engramq.workers import doctor  # noqa: PLC0415 - psycopg, for this alone

        done.append(doctor.migrate_now(examination.owner_url))
    return done


def _close(home: Home) -> str:
    """Take the right to write from others, where nothing of theirs lies in it."""
    try:
        refuse_foreign(home.path, except_for=(home.postgres.name, home.postgres_sockets.name))
    except DeployError as problem:
        return f"Not closed: {problem}"
    home.path.chmod(stat.S_IMODE(home.path.stat().st_mode) & PASSABLE)
    return f"Closed {home.path} to others. See what is in it: they may have written there."


def _clear(home: Home) -> list[str]:
    """End the processes of a dead supervisor and remove their sockets, unless a living one holds the home."""
    try:
        home.refuse_others()  # the file there names processes to be ended
        copied_from = read_ownership(home).copied_from
        lock = lock_home(home, "engramq doctor")
    except DeployError as problem:
        return [f"Nothing cleared: {problem}"]
    try:
        done = [f"Ended {name}, whose supervisor is dead." for name in end_predecessor(home)]
        done += [f"Removed {home.state}, a copy of that of {copied_from}."] if copied_from else []
        for path in (*machine.stale_sockets(home), *dead_ups(home)):
            remove_leftover(path)
            if not os.path.lexists(path):
                done.append(f"Removed {path}, on which nobody listens.")
        return done or [f"Removed {home.state}."]
    finally:
        os.close(lock)
