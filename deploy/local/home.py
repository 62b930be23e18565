"""Name the folders, sockets and locks of an ENGRAMQ_HOME, and check that they can be trusted.

Imported by the stdio relay, which has to start in milliseconds: standard library only, and nothing heavy of it.
"""

import contextlib
import os
import stat
import sys
from collections.abc import Collection
from pathlib import Path

from engramq.schemas.command_line import ExitCode

# sun_path holds 108 bytes on Linux and 104 on macOS, the closing NUL included. The longest name below a run folder is
# "-pg/.s.PGSQL.5432.lock"; what is left is for the folder.
LONGEST_RUN_PATH = 103 - len("-pg/.s.PGSQL.5432.lock")

PRIVATE = 0o700
_OTHERS_WRITE = 0o022
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
        """The exit code of a command that this ends."""
        return ExitCode.MISUSED if self.code == "bad_setting" else ExitCode.FAILED


class Home:
    """The paths of one ENGRAMQ_HOME. Making a Home touches nothing on disk; `ensure` does."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path.expanduser()))
        self.run = _run_folder(self.path)
        self.logs = self.path / "logs"
        self.postgres = self.path / "postgres"
        self.redis = self.path / "redis"
        # What `engramq restore` writes until it is whole; then it is renamed to what `postgres` names.
        self.restoring = self.path / "postgres.restoring"
        # What HTTP clients show where the owner of a connection cannot be known; the gateway makes it.
        self.http_token = self.path / "http-token"
        # The embedder that made vectors last; see `kept_embedder` in settings.py.
        self.embedder = self.path / "embedder"
        # The principal of clients that name none; see `principal_of` in settings.py.
        self.principal = self.path / "principal"
        # By what hooks know projects again; see `hooks/projects.py`.
        self.projects = self.path / "projects.json"
        self.lock = self.path / "supervisor.lock"
        self.state = self.path / "supervisor.json"
        self.supervisor_socket = self.run / "supervisor.sock"
        self.gateway_socket = self.run / "gateway.sock"
        self.redis_socket = self.run / "redis.sock"
        # A folder beside, because PostgreSQL may have to run under an account of its own, and nobody else may come in.
        self.postgres_sockets = self.run.with_name(self.run.name + "-pg")

    def folder_id(self) -> str:
        """Return what tells this home's folder from a copy of it, and not from itself under another path.

        Raises OSError where there is none.
        """
        status = self.path.stat()
        return f"{status.st_dev:x}:{status.st_ino}"

    def ensure(self) -> None:
        """Make the folders that are missing and refuse what somebody else owns, can write to, or has put there.

        Raises DeployError when a folder cannot be made, is a link, or could hold what another user has written; or a
        backup was restored here in part.
        """
        try:
            make_folder(self.path)
            self.refuse_others()
            self.refuse_unfinished()
            self.make_again()
        except OSError as error:
            raise DeployError("home_unusable", f"{self.path} cannot be used: {error.strerror}.", SEE_DISK) from error

    def refuse_unfinished(self) -> None:
        """Raise DeployError where a backup was restored in part."""
        if os.path.lexists(self.restoring):
            raise DeployError(
                "restore_unfinished",
                f"A backup is being restored into {self.path}, or that was broken off.",
                f"Wait for it, or run engramq restore again; to do without the backup, remove {self.restoring}.",
            )

    def make_again(self) -> None:
        """Make the folders in it that somebody has removed. Raises DeployError as `ensure` does."""
        if not self.path.is_dir():  # a home that was removed is not to come back
            raise DeployError("home_unusable", f"{self.path} is not a folder.", _ELSEWHERE)
        for folder in (self.run, self.logs, self.redis):
            private_folder(folder)

    def refuse_others(self) -> None:
        """Refuse a home that somebody else owns or can write to, or where others have left files.

        Files in a home decide which programs start (settings of PostgreSQL can name commands) and end, root's home
        included: nobody runs another's. The folders that PostgreSQL may own are for `embedded.postgres` to judge. A
        folder that is empty is closed instead.

        Raises DeployError saying what is wrong, and how to mend it.
        """
        if not exists(self.path) or not self.path.is_dir():
            raise DeployError("home_unusable", f"{self.path} is not a folder.", _ELSEWHERE)
        status = self.path.stat()
        if status.st_uid != os.geteuid():
            raise DeployError(
                "home_unusable",
                f"{self.path} is not a folder of this user, but of {name_of(status.st_uid)}.",
                f"Run engramq as its owner. {_ELSEWHERE}",
            )
        if stat.S_IMODE(status.st_mode) & _OTHERS_WRITE:
            if any(self.path.iterdir()):
                raise DeployError(
                    "home_unusable",
                    f"Others can write to {self.path}, and may have done so.",
                    f"See what is in it, then close it: chmod go-w {self.path}",
                )
            self.path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS_WRITE)
        refuse_foreign(self.path, except_for=(self.postgres.name, self.postgres_sockets.name))


def home_from(environment: os._Environ[str] | dict[str, str]) -> Home:
    """The home that ENGRAMQ_HOME names, or ~/.engramq."""
    return Home(Path(environment.get("ENGRAMQ_HOME") or "~/.engramq"))


def exists(path: Path) -> bool:
    """Say whether something is there. Raises DeployError where this user may not see that."""
    try:
        return path.exists()
    except OSError as error:
        raise DeployError("home_unusable", f"{path} cannot be looked at: {error.strerror}.", _ELSEWHERE) from error


def refuse_unsupported_platform() -> None:
    """Raise on Windows: there are neither unix sockets with owners nor signals to stop the servers with."""
    if sys.platform == "win32":
        raise DeployError(
            "unsupported_platform",
            "engramq does not run on Windows itself.",
            "Install it within WSL 2, or use Docker: docs/windows.md says how.",
        )


def make_folder(folder: Path) -> None:
    """Make a folder that is missing, for this user alone. Raises DeployError when it cannot be made."""
    try:
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    except OSError as error:
        raise DeployError(
            "home_unusable", f"The folder {folder} cannot be made: {error.strerror}.", _ELSEWHERE
        ) from error


def private_folder(folder: Path) -> None:
    """Make a folder that only this user can enter, or check that an existing one is so.

    Raises DeployError when it is a link, belongs to another user or holds files of one, or cannot be made.
    """
    make_folder(folder)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise DeployError("home_unusable", f"{folder} is not a folder of this user.", _ELSEWHERE)
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(PRIVATE)
    refuse_foreign(folder)


def replace_whole(
    path: Path, text: str, *, synced: bool = False, mode: int = 0o600, owner: tuple[int, int] | None = None
) -> None:
    """Write a file of this user alone: a full disk or, `synced`, a power cut leaves the former one. Raises OSError.

    `mode` and `owner`: of a file that is not this user's alone. Raises UnicodeEncodeError before anything is made.
    """
    encoded = text.encode()
    fresh = path.with_name(f".{path.name}.{os.urandom(8).hex()}")  # of this call: another thread may write it too
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)  # follows no link that lies there
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            if owner is not None:
                os.fchown(file.fileno(), *owner)
            file.write(encoded)
            file.flush()
            if synced:
                os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def refuse_foreign(folder: Path, owners: Collection[int] = (), except_for: Collection[str] = ()) -> None:
    """Refuse a folder in which somebody else's files are; `owners` may have some besides this user and root.

    Raises DeployError naming such a file.
    """
    ours = {0, os.geteuid(), *owners}
    try:
        with os.scandir(folder) as entries:
            owned = [(entry.stat(follow_symlinks=False).st_uid, entry) for entry in entries]
        for owner, entry in owned:
            if owner not in ours and entry.name not in except_for:
                raise DeployError(
                    "home_unusable",
                    f"{entry.path} belongs to {name_of(owner)}, and nothing of others is used.",
                    "See what it is, then remove it, or have root give it to this user (chown).",
                )
    except PermissionError as error:
        raise DeployError(
            "home_unusable", f"{folder} cannot be looked into: {error.strerror}.", f"chmod u+rwx {folder}"
        ) from error


def name_of(uid: int) -> str:
    """Return the login name of an account, or its number where it has none."""
    import pwd  # noqa: PLC0415 - there is none on Windows

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


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


SEE_DISK = "See that its disk is mounted, writable, whole and not full (dmesg says what failed)."
_ELSEWHERE = "Set ENGRAMQ_HOME to a folder of your own."
