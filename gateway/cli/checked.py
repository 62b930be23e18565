"""Commands as options give them, checked before anything is started."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.commands import Command
from engramq.schemas.faults import EngramqError

C = TypeVar("C", bound=Command)


def checked(given: Mapping[str, Any], kind: type[C]) -> C:
    """Return the command with these fields; raises CommandFailed naming what is wrong."""
    try:
        command = msgspec.convert(given, kind)
        command.check()
    except msgspec.ValidationError as problem:
        raise CommandFailed(f"{problem}.", ExitCode.MISUSED) from None
    except EngramqError as problem:
        raise CommandFailed(f"{problem.fault.error} {problem.fault.recovery}", ExitCode.MISUSED) from None
    return command
