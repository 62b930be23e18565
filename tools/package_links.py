"""Repair the links of the import package, and refuse to build a wheel without them.

`engramq/gateway` is a symbolic link to `gateway`, and so on. Where git makes no symbolic links (`core.symlinks=false`,
an archive unpacked on Windows), it leaves a text file there that holds the link's target. A wheel built from such a
tree would hold hardly any modules. `make setup` runs this file as a program; hatchling runs `LinksHook` at each build.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE: Final = "engramq"
ENTRY: Final = ("deploy", "cli")  # where the command `engramq` begins: a wheel without it is of no use
TARGET_BYTES_MAX: Final = 200


class LinksMissing(Exception):
    """The import package lacks folders that it should link to."""


def broken_links(package: Path) -> Iterator[tuple[Path, Path]]:
    """Yield each text file that stands where a link should be, with the folder that the link would lead to."""
    for file in sorted(package.iterdir()):
        if file.suffix or not file.is_file() or file.stat().st_size > TARGET_BYTES_MAX:
            continue
        target = file.read_text(encoding="utf-8").strip()
        if target and (package / target).is_dir():
            yield file, Path(target)


def check(root: Path) -> None:
    """Raise LinksMissing, saying what to do, when the package below `root` is not whole."""
    package = root / PACKAGE
    names = [file.name for file, _ in broken_links(package)]
    entry = package.joinpath(*ENTRY)
    if not names and not (entry.is_dir() or entry.with_suffix(".py").is_file()):
        names = [ENTRY[0]]
    if names:
        listed = ", ".join(f"{PACKAGE}/{name}" for name in names)
        raise LinksMissing(
            f"{listed}: should be symbolic links to the folders beside {PACKAGE}/, but this tree has none. "
            "Run `make setup`, which makes them, or "
            f"`git config core.symlinks true && git checkout -- {PACKAGE}`; then build again."
        )


def repair(root: Path) -> list[str]:
    """Make a link of each text file that stands in place of one; return their names."""
    package = root / PACKAGE
    repaired = []
    for file, target in list(broken_links(package)):
        file.unlink()
        file.symlink_to(target, target_is_directory=True)
        repaired.append(file.name)
    return repaired


class LinksHook(BuildHookInterface[Any]):
    """The hook that hatchling calls before each build of a wheel, an sdist or an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - as hatchling calls it
        """Raise LinksMissing instead of building a wheel without modules."""
        check(Path(self.root))


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[1]
    if names := repair(root):
        sys.stderr.write(f"Made links of {', '.join(names)} in {PACKAGE}/\n")
    check(root)
