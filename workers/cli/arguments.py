"""What the commands take."""

import argparse
from collections.abc import Callable
from typing import Any, NoReturn
from uuid import UUID

from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import WorkerKind

WAIT_MAX_S = 86_400.0


class UsageEnd(Exception):
    """The command line asked for help, or was wrong; the parser has said so."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Parser(argparse.ArgumentParser):
    """Raises UsageEnd where argparse would end the process."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if message:
            self._print_message(message)
        raise UsageEnd(status)


def checked(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return `read` so that argparse shows what its ValueError says."""

    def reading(text: str) -> Any:
        try:
            return read(text)
        except ValueError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None

    return reading


def uuid_of(text: str) -> UUID:
    """Return the id that a text is; raises ValueError."""
    found = parse_uuid(text)
    if found is None:
        raise ValueError(f"{text!r} is no id")
    return found


def parse_worker(arguments: list[str]) -> list[WorkerKind]:
    """Return the kinds to serve, none for all of them; raises UsageEnd."""
    parser = Parser(prog="engramq worker", description="Carry out the commands of some or all worker kinds.")
    kinds = [str(kind) for kind in WorkerKind]
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"any of {', '.join(kinds)}")
    parser.add_argument("--all", action="store_true", help="all kinds in this process")
    parsed = parser.parse_args(arguments)
    unknown = [kind for kind in parsed.kinds if kind not in kinds]
    if unknown:
        parser.error(f"there is no worker kind {unknown[0]!r}; there are {', '.join(kinds)}")
    if parsed.all == bool(parsed.kinds):
        parser.error("name worker kinds, or give --all")
    return [WorkerKind(kind) for kind in parsed.kinds]


def parse_migrate(arguments: list[str]) -> float:
    """Return how many seconds to wait for a server that is not there yet; raises UsageEnd."""
    parser = Parser(prog="engramq migrate", description="Bring the database up to this version of engramq.")
    parser.add_argument(
        "--wait", type=float, default=0.0, metavar="SECONDS", help="wait so long for a server that is not there yet"
    )
    wait_s = float(parser.parse_args(arguments).wait)
    if not 0 <= wait_s <= WAIT_MAX_S:
        parser.error(f"argument --wait: must be from 0 to {WAIT_MAX_S:g}")
    return wait_s
