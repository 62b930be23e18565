"""Read and write the files of others: whole or not at all, with a backup, in their own mode and place."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import Final

from engramq.deploy.local.home import replace_whole
from engramq.schemas.command_line import CommandFailed

BYTES: Final = 16 * 1024 * 1024  # Claude Code keeps its history in its configuration
_BOM: Final = "\ufeff"
_BACKUP: Final = ".engramq-backup"
_NOTHING: Final = ("", "{}")  # what is left of a file that held an entry of ours alone
_OWNER_ONLY: Final = 0o600  # of new files: clients keep keys in theirs


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The result for a file: whether it has changed, and where the former one is kept."""

    changed: bool
    backup: Path | None = None


class Unchangeable(ValueError):
    """A text is not what its client would read, or has no place for what is to come in; says why."""


def read_text(path: Path) -> str:
    """Return what a file holds, nothing if it is not there.

    Raises CommandFailed when it cannot be read, is no text in UTF-8, or is larger than any configuration.
    """
    try:
        with path.open("rb") as file:
            found = file.read(BYTES + 1)
    except FileNotFoundError:
        return ""
    except OSError as problem:
        raise CommandFailed(f"{path} cannot be read: {problem.strerror}. Nothing was written.") from None
    if len(found) > BYTES:
        raise CommandFailed(f"{path} has more than {BYTES // 1024**2} MiB. Nothing was written.")
    try:
        return found.decode()
    except UnicodeDecodeError:
        raise CommandFailed(f"{path} is no text in UTF-8. Nothing was written.") from None


def split_bom(text: str) -> tuple[str, str]:
    """Return the byte order mark that some editors begin a file with, and the rest."""
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


def rewrite(path: Path, change: Callable[[str], str], mend: str) -> Rewrite:
    """Write a file as `change` makes it of its text; `mend` says what to do where that raises Unchangeable.

    A file that we made goes when nothing is left in it. Raises CommandFailed, with nothing written.
    """
    before = read_text(path)
    mark, text = split_bom(before)
    try:
        after = mark + change(text)
    except Unchangeable as problem:
        raise CommandFailed(f"{path}: {problem}. Nothing was written. {mend}".rstrip()) from None
    if after == before:
        return Rewrite(changed=False)
    if "".join(after.split()) not in _NOTHING or not _is_ours(path):
        return Rewrite(changed=True, backup=replace_text(path, after))
    try:
        path.unlink()
    except OSError as problem:
        raise CommandFailed(f"{path} cannot be removed: {problem.strerror}. It is as it was.") from None
    return Rewrite(changed=True)


def _is_ours(path: Path) -> bool:
    """Say whether we made a file: it lacks the backup that one of others has, and nobody has made it read-only."""
    is_plain = not path.is_symlink() and path.stat().st_mode & stat.S_IWUSR
    return bool(is_plain) and not any(path.parent.glob(f"{escape(path.name)}.*{_BACKUP}"))


def replace_text(path: Path, text: str) -> Path | None:
    """Write a file at once, and return where the one before it is kept now, if there was one.

    A link stays one: the file that it leads to is replaced. Raises CommandFailed when that cannot be done.
    """
    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and not path.stat().st_mode & stat.S_IWUSR:
            raise CommandFailed(
                f"{path} is read-only, as what others manage is. It is as it was. --print shows what belongs into it; "
                f"or: chmod u+w {path}"
            )
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else _OWNER_ONLY
        backup = _kept(path) if path.exists() else None
        replace_whole(path, text, synced=True, mode=mode)
    except OSError as problem:
        raise CommandFailed(f"{path} cannot be written: {problem.strerror}. It is as it was.") from None
    return backup


def require_inside(project: Path, path: Path) -> None:
    """Return unless a file of a project is a link that leads out of it; raises CommandFailed.

    The author of the project may have put the link there; a user that names the file does not mean its target.
    """
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - without following links
    if not absolute.is_relative_to(project.absolute()):
        return
    target = Path(os.path.realpath(absolute))
    if not target.is_relative_to(os.path.realpath(project)):
        raise CommandFailed(
            f"{path} leads to {target}, out of the project. Nothing was written. Name that file itself."
        )


def _kept(path: Path) -> Path:
    """Copy a file beside itself, under a name with the time that nothing has yet."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    content, mode = path.read_bytes(), stat.S_IMODE(path.stat().st_mode)
    number = 0
    while True:
        backup = path.with_name(f"{path.name}.{moment}{f'-{number}' if number else ''}{_BACKUP}")
        try:
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        return backup
