"""Check this machine: the home, its disk, what dead processes left, ports, and the supervisor's services.

Standard library and msgspec only, beside the table of checks: `engramq up` makes them before every start.
"""

import contextlib
import errno
import json
import os
import resource
import shutil
import socket
import stat
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from engramq.deploy.connect.catalogue import UserPlaces
from engramq.deploy.connect.files import Unchangeable
from engramq.deploy.connect.hook_entries import HOOK_CLIENTS, HookClient, misses_files
from engramq.deploy.local.home import DeployError, Home, exists
from engramq.deploy.local.hooks.notes import sessions_not_understood, unknown_kinds
from engramq.deploy.local.hooks.projects import known_projects
from engramq.deploy.local.hooks.recall import MOST_TOKENS
from engramq.deploy.local.ownership import Ownership, dead_ups, read_ownership, read_recorded
from engramq.deploy.local.supervisor.stack import GATEWAY, WORKER, accepts, free_address
from engramq.schemas.checks import AT_HOME, Check, CheckName, degraded, failed, passed
from engramq.schemas.command_line import CommandFailed
from engramq.schemas.settings import Settings

MB: Final = 2**20
FULL: Final = 64 * MB  # bytes free, below which PostgreSQL soon stops
LOW: Final = 512 * MB
DESCRIPTORS_FEW: Final = 64  # PostgreSQL does not start with fewer
DESCRIPTORS_LOW: Final = 256
ANSWER_S: Final = 2.0
STARTED_S: Final = 5.0  # by which a process answers that does not hang
DOOR_S: Final = 5.0  # of a home's own HTTP, which may be busy: it is not to be called hung for that
_READY: Final = frozenset({"ready", "done"})
_OTHERS_WRITE: Final = 0o022


def home_check(home: Home) -> Check:
    """Check that the home can be trusted; one that is not there yet is made by the first start."""
    try:
        if not exists(home.path):
            return passed(CheckName.HOME)
        home.refuse_others()
        home.refuse_unfinished()
    except DeployError as problem:
        return failed(CheckName.HOME, problem.message, problem.recovery)
    unwritable = next((each for each in (home.path, home.logs, home.redis) if _is_closed(each)), None)
    if unwritable is not None and os.statvfs(home.path).f_flag & os.ST_RDONLY:
        mend = "See why (dmesg: a disk that fails is often made so), then mount it for writing again."
        return failed(CheckName.HOME, f"The file system of {home.path} is read-only.", mend)
    if unwritable is not None:
        return failed(CheckName.HOME, f"{unwritable} cannot be written to.", f"chmod u+rwx {unwritable}")
    return passed(CheckName.HOME)


def is_open_to_others(home: Home) -> bool:
    """Say whether others can write to the home of this user."""
    with contextlib.suppress(OSError):
        status = home.path.stat()
        return status.st_uid == os.geteuid() and bool(stat.S_IMODE(status.st_mode) & _OTHERS_WRITE)
    return False


def disk_check(folder: Path) -> Check:
    """Check how much room there is where a home lies or will lie."""
    while not os.path.exists(folder):  # noqa: PTH110 - also where its own folder is closed to us, which Path.exists tells
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    left = f"The file system of {folder} has {free // MB} MB left."
    if free < FULL:
        return failed(CheckName.DISK, left)
    return degraded(CheckName.DISK, left) if free < LOW else passed(CheckName.DISK)


def stale_sockets(home: Home) -> list[Path]:
    """Return the sockets of the home on which nobody listens."""
    sockets = (home.supervisor_socket, home.gateway_socket, home.redis_socket, home.postgres_sockets / ".s.PGSQL.5432")
    return [path for path in sockets if os.path.lexists(path) and not accepts(socket.AF_UNIX, str(path))]


def settings_check(settings: Settings) -> Check:
    """Check that settings are heeded as they stand: hooks tell no more tokens than clients show whole."""
    if settings.hook_tokens <= MOST_TOKENS:
        return passed(CheckName.SETTINGS)
    wrong = f"ENGRAMQ_HOOK_TOKENS is {settings.hook_tokens}, but clients cut what is longer than {MOST_TOKENS} tokens."
    return degraded(CheckName.SETTINGS, f"{wrong} Hooks stop there.", f"Set it to {MOST_TOKENS} or less.")


def hooks_check(home: Home) -> Check:
    """Check that projects are known apart, that what clients write of their sessions is understood, and their hooks.

    A hook that this release does not understand is kept for one that does.
    """
    try:
        known_projects(home, "")
    except DeployError as problem:
        return degraded(CheckName.HOOKS, f"Sessions with hooks are in no project. {problem.message}", problem.recovery)
    clients = Counter(notes.client for notes in sessions_not_understood(home))
    several = (f"{count} {'session' if count == 1 else 'sessions'} of {name}" for name, count in clients.items())
    told = f"Nothing is captured of {' and '.join(several)}: no line of what the client wrote is understood."
    if clients:
        return degraded(CheckName.HOOKS, told)
    old = [client for client in HOOK_CLIENTS.values() if _misses_files(client)]
    titles = " and ".join(client.title for client in old)
    unknown = [f"{count} lines of {client}: {kind}" for (client, kind), count in unknown_kinds(home).items()]
    if unknown and not old:
        return degraded(CheckName.HOOKS, f"Kinds of lines that this version does not know: {', '.join(unknown)}.")
    told = f"The hooks of {titles} are of an earlier release, which showed nothing about files."
    mend = "; ".join(f"engramq hooks install {client.name}" for client in old)
    return degraded(CheckName.HOOKS, told, mend) if old else passed(CheckName.HOOKS)


def _misses_files(client: HookClient) -> bool:
    """Say whether a client's own hooks are of an earlier release. A file that cannot be read is the client's matter."""
    with contextlib.suppress(CommandFailed, Unchangeable, OSError, RuntimeError):  # the last: it has no home
        return misses_files(client.user(UserPlaces(Path.home(), os.environ, Path.cwd())), client)
    return False


def ownership_notes(owned: Ownership) -> list[str]:
    """Return a sentence on each process that has a home whose stack is not reached, and on a copied state file."""
    notes = [f"{name} (pid {who.pid}) runs without its supervisor." for name, who in owned.orphans.items()]
    if owned.holder is not None:
        pid = owned.holder.process.pid
        notes.append(f"{owned.holder.role} (pid {pid}) has the home, and does not answer: engramq down ends a stack.")
    ups = (f"{owner.role} (pid {owner.process.pid})" for owner in owned.ups.values())
    notes += [f"{up} tries to start the stack again; its output says why it does not run." for up in ups]
    if owned.copied_from:
        notes.append(f"The state file was copied with the home {owned.copied_from}, whose processes are left alone.")
    return notes


def leftovers_check(home: Home) -> Check:
    """Check what a stack that does not run has left, and who has its home."""
    try:
        leftovers = ownership_notes(read_ownership(home))
        leftovers += [f"Nobody listens at {path}." for path in (*stale_sockets(home), *dead_ups(home))]
        if not leftovers and read_recorded(home)[0]:
            leftovers = [f"{home.state} names processes that are dead."]
    except DeployError as problem:
        return failed(CheckName.LEFTOVERS, problem.message, problem.recovery)
    return degraded(CheckName.LEFTOVERS, " ".join(leftovers)) if leftovers else passed(CheckName.LEFTOVERS)


def descriptors_check(limit: int) -> Check:
    """Check how many files each process may open: `limit` of them."""
    told = f"A process may open {limit} files, and needs some {DESCRIPTORS_LOW}: calls are cut."
    mend = "Raise the limit where engramq is started (`ulimit -n 4096`); then `engramq down`, `engramq up`."
    if limit == resource.RLIM_INFINITY:
        return passed(CheckName.STACK)
    if limit < DESCRIPTORS_FEW:
        return failed(CheckName.STACK, told, mend)
    return degraded(CheckName.STACK, told, mend) if limit < DESCRIPTORS_LOW else passed(CheckName.STACK)


def stack_checks(answer: Mapping[str, Any]) -> list[Check]:
    """Check what a supervisor says of its services, and that its gateway answers: one that hangs lives."""
    checks = [_service_check(service) for service in answer.get("services") or ()]
    if isinstance(descriptors := answer.get("descriptors"), int):
        checks.append(descriptors_check(descriptors))
    if answer.get("health") is not None:
        checks.append(passed(CheckName.GATEWAY))
    else:
        mend = _SEE_LOG.format(GATEWAY) + hang_mend(answer, GATEWAY)
        checks.append(failed(CheckName.GATEWAY, "The gateway of the home does not answer.", mend))
    url = str(answer.get("http") or "")
    if url and answer.get("health") is not None and not _is_gateway(url.partition("://")[2], DOOR_S):
        mend = _SEE_LOG.format(GATEWAY) + hang_mend(answer, GATEWAY)
        checks.append(degraded(CheckName.GATEWAY, f"HTTP at {url} does not answer.", mend))
    return checks


def add_pids(checks: Sequence[Check], answer: Mapping[str, Any]) -> list[Check]:
    """Return checks where the mend of a home's worker that does not answer says what helps if it hangs."""
    mend = AT_HOME[CheckName.WORKER] + hang_mend(answer, WORKER)
    return [
        msgspec.structs.replace(check, mend=mend)
        if check.name == CheckName.WORKER and check.state == "failed" and check.mend == AT_HOME[CheckName.WORKER]
        else check
        for check in checks
    ]


def hang_mend(answer: Mapping[str, Any], name: str) -> str:
    """Return what to do if a service hangs; nothing where it does not run, or has only just been started."""
    pid = _pid_of_ready(answer, name, STARTED_S)
    return "" if pid is None else f" If it hangs: `kill -9 {pid}`; it is started anew at once."


def _pid_of_ready(answer: Mapping[str, Any], name: str, lived_s: float = 0.0) -> int | None:
    """Return the process of a service that has lived for so long; None where there is none."""
    for service in answer.get("services") or ():
        pid, uptime_s = service.get("pid"), service.get("uptime_s")
        if service.get("name") == name and service.get("state") == "ready" and isinstance(pid, int):
            return pid if isinstance(uptime_s, float | int) and uptime_s >= lived_s else None
    return None


def door_checks(host: str, port: int, *, ours: bool) -> list[Check]:
    """Check who listens where HTTP is to be served; `ours`: a gateway is expected there."""
    place = f"{f'[{host}]' if ':' in host else host}:{port}"
    if not port:
        return []
    absent = [failed(CheckName.GATEWAY, f"No gateway answers at http://{place}.")] if ours else []
    try:
        free_address(host, port)
    except DeployError as problem:
        if not _is_gateway(place):
            if isinstance(problem.__cause__, OSError) and problem.__cause__.errno == errno.EADDRINUSE:
                return [failed(CheckName.PORT, f"{place} is taken by another program."), *absent]
            # At another machine's address a gateway is looked for; at this one's nothing can listen.
            return absent or [failed(CheckName.PORT, problem.message, problem.recovery)]
        if ours:
            return [passed(CheckName.PORT), passed(CheckName.GATEWAY)]
        return [failed(CheckName.PORT, f"Another gateway of engramq serves {place}.")]
    return [passed(CheckName.PORT), *absent]


_SEE_LOG: Final = "See {}.log in the home's folder logs."


def _service_check(service: Mapping[str, Any]) -> Check:
    name, state = service.get("name"), str(service.get("state"))
    complaint = " ".join(str(service.get("complaint") or "").split())
    if state not in _READY and complaint:
        return failed(CheckName.STACK, f"{name} is {state}: {complaint}")
    if state not in _READY:
        return degraded(CheckName.STACK, f"{name} is {state}.", "Wait: it is being started.")
    return degraded(CheckName.STACK, complaint) if complaint else passed(CheckName.STACK)


def _is_gateway(place: str, bound_s: float = ANSWER_S) -> bool:
    """Say whether a gateway of engramq answers there."""
    request = urllib.request.Request(f"http://{place}/healthz", headers={"Host": "localhost"})
    straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever http_proxy says
    try:
        with straight.open(request, timeout=bound_s) as answer:
            return bool(json.loads(answer.read(4096)).get("status") == "alive")
    except (OSError, ValueError, AttributeError, urllib.error.URLError):
        return False


def _is_closed(folder: Path) -> bool:
    return os.path.lexists(folder) and not os.access(folder, os.W_OK | os.X_OK)
