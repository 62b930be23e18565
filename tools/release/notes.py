"""The notes of one version, from CHANGELOG.md: `python -m tools.release.notes [VERSION]`."""

import re
import sys
from pathlib import Path
from typing import Final

from tools.release.version import VERSION

CHANGELOG: Final = Path(__file__).resolve().parents[2] / "CHANGELOG.md"
# "## 0.2.0 (2026-12-01)", or before its release "## Unreleased (0.2.0)".
_HEADING: Final = re.compile(r"^## (?:Unreleased \(([^)]+)\)|(\S+).*)$", re.MULTILINE)


class NoNotes(LookupError):
    """The changelog says nothing of that version."""


def notes_of(changelog: str, version: str) -> str:
    """Return what the changelog says of a version, under a heading with its name; raises NoNotes."""
    headings = list(_HEADING.finditer(changelog))
    ends = [*(each.start() for each in headings[1:]), len(changelog)]
    for heading, end in zip(headings, ends, strict=True):
        if version in heading.groups():
            text = changelog[heading.end() : end].strip()
            if text:
                return f"# engramq {version}\n\n{text}\n"
    raise NoNotes(f"CHANGELOG.md says nothing of {version}")


def main() -> None:
    """Print the notes of the version that is named, else of this one."""
    version = sys.argv[1] if len(sys.argv) > 1 else VERSION
    try:
        sys.stdout.write(notes_of(CHANGELOG.read_text(encoding="utf-8"), version))
    except NoNotes as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
