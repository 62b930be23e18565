"""Keep a secret of a home in a file that its owner alone can read, made at its first use."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


def read_or_make_secret(place: Path) -> str:
    """Return the secret in a file, made where there is none yet; whoever makes it at the same time gets the same one.

    Raises OSError when it can neither be read nor made, or when others could have read it.
    """
    if not place.exists():
        fresh = place.with_name(f"{place.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
        with suppress(FileExistsError):  # another process was faster
            place.hardlink_to(fresh)
        fresh.unlink()
    found = place.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{place} is not a file that this user alone can read")
    return place.read_text(encoding="ascii").strip()
