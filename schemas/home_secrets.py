"""Keep a secret of a home in a file that its owner alone can read, made at its first use."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


def read_or_make_secret(place: Path) -> bytes:
    """Return the secret in a file, made where there is none yet; two that make it at the same time get the same one.

    Raises OSError when it can neither be read nor made, when others could have read it, and when the file is empty.
    """
    if not place.exists():
        _make(place)
    found = place.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{place} is not a file that this user alone can read")
    secret = place.read_bytes().strip()
    if not secret:
        raise OSError(f"{place} is empty: delete it, and the next start makes another")
    return secret


def _make(place: Path) -> None:
    """Write a fresh secret, which gets its name only once it is on the disk."""
    fresh = place.with_name(f"{place.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was faster
            place.hardlink_to(fresh)
    finally:
        fresh.unlink(missing_ok=True)
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
