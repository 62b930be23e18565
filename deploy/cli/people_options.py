"""The options that the commands for people have in common; each stands for a parameter of a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from engramq.schemas.setting_values import namespace
from engramq.schemas.vocabulary import MemoryState, Partition, Sector, Verification

Body = TypeVar("Body", bound=Callable[..., Any])

WHOLE_REPLY: Final = 200_000  # characters: no agent's context has to be spared


def _words(name: str, words: type[Partition | Sector | MemoryState | Verification], text: str) -> Any:
    return click.option(
        f"--{name}", f"{name}s", multiple=True, type=click.Choice([str(word) for word in words]), help=text
    )


NAMESPACE: Final = click.option("--namespace", metavar="NAME", type=namespace, help="Default: ENGRAMQ_NAMESPACE.")
JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print the tool's reply as it is.")
PARTITION: Final = _words("partition", Partition, "Default: trusted; repeat it for both.")
SECTOR: Final = _words("sector", Sector, "Only these.")
STATE: Final = _words("state", MemoryState, "Default: active and pending.")
VERIFICATION: Final = _words("verification", Verification, "Default: all but rejected.")
TAG: Final = click.option("--tag", "tags", metavar="TAG", multiple=True, help="Repeat it for several: all of them.")
PROJECT: Final = click.option(
    "--project", metavar="NAME", help="Default: ENGRAMQ_PROJECT, else what is in none. '*': every project."
)
THREAD: Final = click.option("--thread", metavar="NAME", help="Of this conversation or document.")
AS_OF: Final = click.option("--as-of", metavar="TIME", help="What held then: a date, or a time.")
SUPERSEDED: Final = click.option("--include-superseded", is_flag=True, help="Also what was replaced.")
REASON: Final = click.option("--reason", metavar="TEXT", help="For the audit log.")


def options(*several: Callable[[Body], Body]) -> Callable[[Body], Body]:
    """Return what gives a command these options, in this order."""

    def given(body: Body) -> Body:
        for one in reversed(several):
            body = one(body)
        return body

    return given


def arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given, as a tool takes it: without what was left out."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if value is not None and value != () and value is not False
    }
