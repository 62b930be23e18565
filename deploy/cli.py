"""The `engramq` command. `stdio` goes past everything else, because MCP clients wait for it."""

from __future__ import annotations

import sys

from engramq.deploy.client import SUPERVISOR_COMMAND


def main(arguments: list[str] | None = None, supervisor: tuple[str, ...] = SUPERVISOR_COMMAND) -> int:
    """Run the command in `arguments` (default: those of the process) and return its exit code.

    `supervisor` is the command that starts a supervisor where there is none.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["stdio"]:
        from engramq.deploy.stdio import main as stdio  # noqa: PLC0415 - of no use to the other commands

        return stdio(given[1:], supervisor)
    from engramq.deploy.commands.root import run  # noqa: PLC0415 - click takes 40 ms, which stdio should not pay

    return run(given, supervisor)
