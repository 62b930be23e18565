"""The `engramq` command. `stdio` and `hook` go past everything else, because clients wait for them."""

import os
import sys

from engramq.deploy.local.home import DeployError, refuse_unsupported_platform
from engramq.deploy.local.settings import take_secrets
from engramq.schemas.command_line import ExitCode


def main(arguments: list[str] | None = None) -> int:
    """Run the command in `arguments` (default: those of the process) and return its exit code."""
    _hold_standard_streams()
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # while modules are loaded, which takes half a second: a command has its own end
        return ExitCode.INTERRUPTED


def _hold_standard_streams() -> None:
    """Open what was closed to nowhere: else the next socket got its number, and would be read and written as it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free


def _run(given: list[str]) -> int:
    try:
        refuse_unsupported_platform()
        take_secrets(os.environ)
    except DeployError as problem:
        sys.stderr.write(f"engramq: {problem}\n")
        return ExitCode.DONE if given[:1] == ["hook"] else problem.exit_code  # a hook never stops its client
    if given[:1] == ["stdio"]:
        from engramq.deploy.local.stdio import main as stdio  # noqa: PLC0415 - of no use to the other commands

        return stdio(given[1:])
    if given[:1] == ["hook"] and not {"-h", "--help"} & set(given):
        from engramq.deploy.local.hooks.run import main as hook  # noqa: PLC0415 - a client waits for it at every prompt

        return hook(given[1:])
    from engramq.deploy.cli.root import run  # noqa: PLC0415 - click takes 40 ms, which stdio should not pay

    return run(given)
