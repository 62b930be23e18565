"""Say who has a home: the one reading of its lock and its state file that status, down, doctor and up share.

A lock and a state file name the process and the home's folder by device and inode. A copy of a home is another folder,
so what its copied files name is never touched; a home that was moved is the same one.
"""

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.process import ProcessIdentity
from engramq.deploy.local.home import SEE_DISK, DeployError, Home

logger = logging.getLogger(__name__)

SUPERVISOR = "the supervisor"
FOREGROUND_UP = "engramq up"
DETACHED_UP = "engramq up --detach"
# A reader of a lock holds it for an instant.
_GLANCE_S = 0.25
_RETRY_S = 0.02
# Written over in place, so that it also goes where the disk is full.
_OWNER_BYTES = 2048
# The locks of `engramq up`, each with the pid of its process.
_UPS = "up.*.lock"


@dataclass(frozen=True)
class LockOwner:
    """The holder of a lock: for which home, and in which role."""

    home: str
    folder: str
    role: str
    process: ProcessIdentity

    def is_of(self, home: Home) -> bool:
        """Whether it was written for this home, and not for one that this was copied from."""
        return self.folder == home.folder_id()


@dataclass(frozen=True)
class Ownership:
    """The owner of a home.

    `is_held`: a living process holds its lock. `holder` says which, where that is known. `children` are the living
    processes of its stack. `ups` are the living `engramq up`, which start the stack again. `copied_from` is the home
    whose state file lies here, as it does in a copy.
    """

    is_held: bool = False
    holder: LockOwner | None = None
    children: Mapping[str, ProcessIdentity] = field(default_factory=dict)
    ups: Mapping[Path, LockOwner] = field(default_factory=dict)
    copied_from: str = ""

    @property
    def orphans(self) -> Mapping[str, ProcessIdentity]:
        """The processes that a dead supervisor has left."""
        return {} if self.is_held else self.children


def read_ownership(home: Home) -> Ownership:
    """Read who has a home. Changes nothing. Raises DeployError where that cannot be read."""
    try:
        if not home.path.is_dir():
            return Ownership()
        recorded, copied_from = read_recorded(home)
        children = {name: who for name, who in recorded.items() if process.is_alive(who)}
        is_held = _is_held(home.lock)
        return Ownership(is_held, _read_owner(home.lock) if is_held else None, children, _read_ups(home), copied_from)
    except OSError as error:
        raise DeployError("home_unusable", f"{home.path} cannot be read: {error.strerror}.", SEE_DISK) from error


def nobody_has(home: Home) -> bool:
    """Whether no process has the home, and no `engramq up` is about to start its stack again."""
    owned = read_ownership(home)
    return not owned.is_held and not owned.ups


def lock_home(home: Home, role: str, bound_s: float = _GLANCE_S) -> int:
    """Take the lock that says who owns the home's servers; the kernel releases it with the holder.

    `role`: what the holder is, such as `engramq backup`; `bound_s`: how long another one is waited for. Returns the
    descriptor that holds it; children do not inherit it. Raises DeployError when somebody else has it (`home_in_use`),
    or the home is not to be used.
    """
    return _take(home.lock, home, role, bound_s)


@contextmanager
def register_up(home: Home, role: str, lock: int | None = None) -> Iterator[int]:
    """Let `engramq down` find this process within the block, as it starts the stack again. Raises DeployError.

    Gives the descriptor of its lock; `lock` is that of the program that this process was before.
    """
    path = home.path / _UPS.replace("*", str(os.getpid()))
    descriptor = _take(path, home, role) if lock is None else lock
    try:
        yield descriptor
    finally:
        remove_leftover(path)
        os.close(descriptor)


def lies_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still lies at its path: somebody may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def who_holds(home: Home) -> str:
    """Name the process that has the home, for a sentence; nothing where none has."""
    owned = read_ownership(home)
    owner = owned.holder
    if owner is None:
        return "another process" if owned.is_held else ""
    other = "" if owner.is_of(home) else f" of {owner.home}"
    return f"{owner.role}{other} (pid {owner.process.pid})"


def read_recorded(home: Home) -> tuple[dict[str, ProcessIdentity], str]:
    """Return the processes that the state file names, alive or not, and the home that it was copied from.

    None when it is missing, spoilt, or was written for another home, whose processes are no matter of this one.
    """
    try:
        content = json.loads(home.state.read_text())
        if content["folder"] != home.folder_id():
            return {}, str(content["home"])
        return {
            name: ProcessIdentity(int(pid), str(started)) for name, (pid, started) in content["processes"].items()
        }, ""
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {}, ""


def state_text(home: Home, processes: Mapping[str, ProcessIdentity]) -> str:
    """Return what `read_recorded` reads."""
    named = {name: [who.pid, who.started] for name, who in processes.items()}
    return json.dumps({"home": str(home.path), "folder": home.folder_id(), "processes": named})


def remove_leftover(path: Path) -> None:
    """Remove a file that means nothing any more; where the disk is read-only or broken, it stays, as doctor says."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("Not removed", extra={"path": str(path), "error": str(error)})


def _read_ups(home: Home) -> dict[Path, LockOwner]:
    owners = {path: _read_owner(path) for path in home.path.glob(_UPS) if _is_held(path)}
    return {path: owner for path, owner in owners.items() if owner is not None and owner.is_of(home)}


def dead_ups(home: Home) -> list[Path]:
    """Return what killed `engramq up` have left."""
    return [path for path in home.path.glob(_UPS) if not _is_held(path)]


def _take(path: Path, home: Home, role: str, bound_s: float = _GLANCE_S) -> int:
    descriptor = _open(path, home)
    deadline = time.monotonic() + bound_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise DeployError(
                    "home_in_use", f"{home.path} is in use by {who_holds(home)}.", "Stop it first: engramq down."
                ) from error
            time.sleep(_RETRY_S)
        except OSError as error:
            os.close(descriptor)
            raise _unusable(path, error) from error
    me = process.identify(os.getpid())
    named = None if me is None else [me.pid, me.started]
    text = json.dumps({"home": str(home.path), "folder": home.folder_id(), "role": role, "process": named})
    try:
        os.pwrite(descriptor, text.encode().ljust(_OWNER_BYTES), 0)
    except OSError as error:
        # It is held all the same; sentences then name no process.
        logger.warning("Lock without a name", extra={"path": str(path), "error": str(error)})
    return descriptor


def _open(path: Path, home: Home) -> int:
    """Open a lock, for reading alone where the disk is read-only: that suffices to hold it."""
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
    except OSError as error:
        try:
            return os.open(path, os.O_RDONLY | flags)
        except OSError:
            if not os.path.isdir(home.path):  # noqa: PTH112 - Path's asks once more on a broken disk
                raise DeployError("home_unusable", f"{home.path} is not a folder.", SEE_DISK) from error
            raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> DeployError:
    return DeployError("home_unusable", f"{path} cannot be opened: {error.strerror}.", SEE_DISK)


def _is_held(path: Path) -> bool:
    """Whether a process holds a lock; asking takes an instant of holding it together with others who ask."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read_owner(path: Path) -> LockOwner | None:
    """Return what a lock says of its holder; None where it names no living process."""
    try:
        content: dict[str, Any] = json.loads(path.read_text())
        pid, started = content["process"]
        who = ProcessIdentity(int(pid), str(started))
        owner = LockOwner(str(content["home"]), str(content["folder"]), str(content["role"]), who)
        return owner if process.is_alive(who) else None
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None
