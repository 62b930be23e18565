"""`python -m tools.release INTO [--sbom-by PROGRAM]`: a release of pyproject.toml's version, the same bytes each time.

INTO gets sdist and wheel, RELEASE_NOTES.md, engramq.cdx.json (CycloneDX, of what is installed at run time, as the lock
file pins it) and SHA256SUMS. PROGRAM is cyclonedx-py (default: the one on PATH).
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tools.release.notes import notes_of
from tools.release.runtime_lock import runtime_lock
from tools.release.version import VERSION

ROOT: Final = Path(__file__).resolve().parents[2]
NOTES: Final = "RELEASE_NOTES.md"
SBOM: Final = "engramq.cdx.json"
SUMS: Final = "SHA256SUMS"


def build(source: Path, into: Path, epoch: str) -> list[Path]:
    """Build the sdist of a folder and the wheel of that sdist; return both. `epoch`: the time of all files in them."""
    _run(source, epoch, sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(into))
    (sdist,) = into.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        _run(unpacked, epoch, sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into))
    (wheel,) = into.glob("*.whl")
    return [sdist, wheel]


def bill_of_materials(program: str) -> str:
    """Return the bill of materials of what engramq needs at run time, in CycloneDX's JSON."""
    command = [
        program,
        "requirements",
        "-",
        "--pyproject",
        str(ROOT / "pyproject.toml"),
        "--output-reproducible",
        "--of",
        "JSON",
    ]
    lock = runtime_lock((ROOT / "pyproject.toml").read_text(), (ROOT / "requirements.lock").read_text())
    made = subprocess.run(command, input=lock, capture_output=True, text=True, check=True)
    return made.stdout


def digests(files: list[Path]) -> str:
    """Return the text that `sha256sum --check` reads."""
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(files))


def _run(folder: Path, epoch: str, *command: str) -> str:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    return subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Make a release in the folder that the command line names, which must be empty or missing."""
    parser = argparse.ArgumentParser(description="Make a release.")
    parser.add_argument("into", type=Path)
    parser.add_argument("--sbom-by", default="cyclonedx-py", metavar="PROGRAM")
    given = parser.parse_args()
    into: Path = given.into
    into.mkdir(parents=True, exist_ok=True)
    if any(into.iterdir()):
        parser.error(f"{into} is not empty")
    made = build(ROOT, into.absolute(), _run(ROOT, "0", "git", "log", "-1", "--format=%ct").strip())
    for name, text in (
        (NOTES, notes_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), VERSION)),
        (SBOM, bill_of_materials(given.sbom_by)),
    ):
        (into / name).write_text(text, encoding="utf-8")
        made.append(into / name)
    (into / SUMS).write_text(digests(made))
    sys.stdout.write(digests(made))


if __name__ == "__main__":
    main()
