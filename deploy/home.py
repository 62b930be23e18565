"""Where one stack lives: the folders, sockets and locks of an ENGRAMQ_HOME, and whether they can be trusted.

Imported by the stdio relay, which has to start in milliseconds: standard library only, and nothing heavy of it.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from engramq.schemas.command_line import ExitCode

# sun_path holds 108 bytes on Linux and 104 on macOS, the closing NUL included. The longest name below a run folder is
# "-pg/.s.PGSQL.5432.lock"; what is left is for the folder.
LONGEST_RUN_PATH = 103 - len("-pg/.s.PGSQL.5432.lock")

PRIVATE = 0o700
# Others may pass through such a folder and not list it: PostgreSQL under an account of its own needs it.
PASSABLE = 0o711


class DeployError(Exception):
    """Something about the installation that its owner has to mend: what is wrong, and how to mend it."""

    def __init__(self, code: str, message: str, recovery: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.recovery = recovery

    def __str__(self) -> str:
        return f"{self.message} {self.recovery}".strip()

    @property
    def exit_code(self) -> ExitCode:
        """What a command returns that this ends."""
        return ExitCode.MISUSED if self.code == "bad_setting" else ExitCode.FAILED


class Home:
    """The paths of one ENGRAMQ_HOME. Making a Home touches nothing on disk; `ensure` does."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path.expanduser()))
        self.run = _run_folder(self.path)
        self.logs = self.path / "logs"
        self.postgres = self.path / "postgres"
        self.redis = self.path / "redis"
        self.lock = self.path / "supervisor.lock"
        self.state = self.path / "supervisor.json"
        self.supervisor_socket = self.run / "supervisor.sock"
        self.gateway_socket = self.run / "gateway.sock"
        self.redis_socket = self.run / "redis.sock"
        # A folder beside, because PostgreSQL may have to run under an account of its own, and nobody else may come in.
        self.postgres_sockets = self.run.with_name(self.run.name + "-pg")

    def ensure(self) -> None:
        """Make the folders that are missing and refuse those that somebody else owns or can write to.

        Raises:
            DeployError: a folder cannot be made, is a link, or belongs to another user.
        """
        try:
            self.path.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        except OSError as error:
            raise DeployError(
                "home_unusable", f"The folder {self.path} cannot be made: {error.strerror}.", _ELSEWHERE
            ) from error
        # Root may use a folder that somebody else owns (a mounted volume); nobody else can.
        if not self.path.is_dir() or os.geteuid() not in (0, self.path.stat().st_uid):
            raise DeployError("home_unusable", f"{self.path} is not a folder of this user.", _ELSEWHERE)
        for folder in (self.run, self.logs, self.redis):
            private_folder(folder)


def home_from(environment: os._Environ[str] | dict[str, str]) -> Home:
    """The home that ENGRAMQ_HOME names, or ~/.engramq."""
    return Home(Path(environment.get("ENGRAMQ_HOME") or "~/.engramq"))


def refuse_unsupported_platform() -> None:
    """Raise on Windows: there are neither unix sockets with owners nor signals to stop the servers with."""
    if sys.platform == "win32":
        raise DeployError(
            "unsupported_platform",
            "engramq's embedded servers do not run on Windows.",
            "Use WSL 2, or a machine with Linux or macOS.",
        )


def private_folder(folder: Path) -> None:
    """Make a folder that only this user can enter, or check that an existing one is so.

    Raises:
        DeployError: it is a link, belongs to another user, or cannot be made.
    """
    try:
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    except OSError as error:
        raise DeployError(
            "home_unusable", f"The folder {folder} cannot be made: {error.strerror}.", _ELSEWHERE
        ) from error
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise DeployError("home_unusable", f"{folder} is not a folder of this user.", _ELSEWHERE)
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(PRIVATE)


def _run_folder(home: Path) -> Path:
    """Where the sockets go: below the home, or in a short folder of this user where the home's path is too long.

    It must come out the same for every process of the user, so neither TMPDIR nor XDG_RUNTIME_DIR has a say.
    """
    beside = home / "run"
    if len(os.fsencode(beside)) <= LONGEST_RUN_PATH:
        return beside
    import hashlib  # noqa: PLC0415 - 3 ms of the relay's start that only over-long homes pay

    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    return Path(f"/tmp/engramq-{os.geteuid()}-{name}")  # noqa: S108 - owner and mode are checked by private_folder


_ELSEWHERE = "Set ENGRAMQ_HOME to a folder of your own."
