"""The previous release, built from git and installed beside this one."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple

from tests.architecture.source import ROOT

PREVIOUS: Final = "ENGRAMQ_TEST_PREVIOUS"  # a revision to take as the previous release
BEFORE_LANES: Final = "58bafe4b9fd1c670b7f4215f26a2988137937565"  # the last revision without lanes
BOUND_S: Final = 120


class Release(NamedTuple):
    """An installed release: what it was built from, in words, and its `engramq`."""

    source: str
    program: str


def previous_release(folder: Path) -> Release:
    """Build the newest release that came before this commit into an environment of its own below `folder`.

    That is the revision in ENGRAMQ_TEST_PREVIOUS, else the newest tag before HEAD, else the last one before lanes, else
    the parent of HEAD. A clone without history has none of them: then it is this tree, and only the way of upgrading is
    tried, not two versions.
    """
    source, revision = _revision()
    tree = folder / "tree"
    if revision:
        archive = _git("archive", "--format=tar", revision)
        with tarfile.open(fileobj=BytesIO(archive)) as opened:
            opened.extractall(tree, filter="tar")
    else:
        shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(".*"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(command, cwd=tree, check=True, capture_output=True, timeout=BOUND_S)
    return Release(source, _install(next((folder / "dist").glob("*.whl")), folder / "installed"))


def _revision() -> tuple[str, str]:
    if chosen := os.environ.get(PREVIOUS):
        return f"the revision {chosen} of {PREVIOUS}", chosen
    tries = (
        ("tag", ("describe", "--tags", "--abbrev=0", "HEAD~1")),
        ("last revision without lanes", ("merge-base", BEFORE_LANES, "HEAD")),
        ("parent", ("rev-parse", "HEAD~1")),
    )
    for words, asked in tries:
        try:
            found = _git(*asked).decode().strip()
        except subprocess.CalledProcessError:
            continue
        return f"the {words} {found}", found
    return "this tree itself: the clone has no history, so both releases are the same", ""


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, timeout=BOUND_S).stdout


def _install(wheel: Path, into: Path) -> str:
    """Unpack a wheel into an environment that has the packages of this one; return its `engramq`."""
    venv.create(into, with_pip=False, symlinks=True)
    (packages,) = into.glob("lib/python3*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    ours = [path for path in sys.path if path.endswith("site-packages")]  # whose .pth files are not read there
    (packages / "dependencies.pth").write_text("\n".join(ours))
    program, python = into / "bin" / "engramq", into / "bin" / "python"
    program.write_text(f"#!{python}\nimport sys\nfrom engramq.deploy.cli import main\nsys.exit(main())\n")
    program.chmod(0o755)
    command = [str(python), "-c", "import engramq.deploy as found; print(found.__file__)"]
    found = subprocess.run(command, cwd=into, check=True, capture_output=True, text=True, timeout=BOUND_S).stdout
    assert Path(found.strip()).is_relative_to(packages), found
    return str(program)
