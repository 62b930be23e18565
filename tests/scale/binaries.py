"""Debian's programs that the tests of scale run and PyPI has not, unpacked without installing them.

    python -m tests.scale.binaries .environments/scale

Nothing is fetched where the machine has them. What cannot be had ends the target with the reason.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

# By program: its package, and those of the libraries that it needs besides what every Debian has.
PACKAGES: Final = {"pgbouncer": ("pgbouncer", "libevent-2.1-7", "libc-ares2"), "faketime": ("faketime", "libfaketime")}


class Missing(Exception):
    """A program cannot be had; the message says why."""


def fetch(program: str, folder: Path) -> None:
    """Unpack a program and its libraries below `folder`/root unless the machine has it; raises Missing."""
    if shutil.which(program) or find(program, folder):
        return
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise Missing(f"{program} is not installed, and this is no Debian to take its package from")
    for package in PACKAGES[program]:
        done = _apt(folder, "download", package)
        if done.returncode != 0 and _apt(folder, "update", "-qq").returncode == 0:  # the lists may be old, or missing
            done = _apt(folder, "download", package)
        archive = next(folder.glob(f"{package}_*.deb"), None)
        if archive is None:
            raise Missing(f"{program}: Debian's package {package} could not be had: {done.stderr.strip()}")
        subprocess.run(["dpkg-deb", "-x", archive.name, "root"], cwd=folder, check=True)
        archive.unlink()


def find(program: str, folder: Path) -> Path | None:
    """Return where a program was unpacked to."""
    return next((path for place in ("bin", "sbin") for path in folder.glob(f"root/usr/{place}/{program}")), None)


def _apt(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["apt-get", *arguments], cwd=folder, capture_output=True, text=True, check=False)


def main(folder: Path) -> None:
    """Fetch every program."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for program in PACKAGES:
            fetch(program, folder)
    except Missing as problem:
        sys.exit(f"test-scale: {problem}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
