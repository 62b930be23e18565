"""The part of the lock file that is installed at run time: without what only development and extras need."""

import re
import tomllib
from collections.abc import Mapping
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)")
_VIA: Final = re.compile(r"^ {4}#(?: via| {3})\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_CONTINUED: Final = ("    ", "\t")


class Pinned(NamedTuple):
    """A package as it is pinned: its lines, and the packages that need it."""

    text: str
    needed_by: frozenset[str]


class Unlocked(ValueError):
    """pyproject.toml needs what the lock file does not pin."""


def runtime_lock(pyproject: str, lock: str) -> str:
    """Return the lines of the lock file for what the project needs without extras; raises Unlocked."""
    pinned = _pinned(lock)
    wanted = {_name(requirement) for requirement in tomllib.loads(pyproject)["project"]["dependencies"]}
    if missing := wanted - pinned.keys():
        raise Unlocked(f"requirements.lock does not pin {', '.join(sorted(missing))}: run `make lock`")
    while more := {name for name, package in pinned.items() if name not in wanted and package.needed_by & wanted}:
        wanted |= more
    return "".join(pinned[name].text for name in sorted(wanted))


def _pinned(lock: str) -> Mapping[str, Pinned]:
    found: dict[str, Pinned] = {}
    block: list[str] = []
    for line in [*lock.splitlines(keepends=True), ""]:
        if not line.startswith(_CONTINUED) and block:
            found[_name(block[0])] = Pinned("".join(block), frozenset(_needed_by(block)))
            block = []
        if line.strip() and not line.startswith("#"):
            block.append(line)
    return found


def _needed_by(block: list[str]) -> set[str]:
    return {_normal(via[1]) for line in block if (via := _VIA.match(line)) is not None}


def _name(requirement: str) -> str:
    found = _NAME.match(requirement)
    if found is None:
        raise ValueError(f"{requirement!r} is no requirement")
    return _normal(found[1])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
