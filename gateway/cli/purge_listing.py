"""What `engramq purge` is to list, checked before anything is started."""

from collections.abc import Mapping
from typing import Any

import msgspec

from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.commands import PurgeMemories
from engramq.schemas.faults import EngramqError


def purge_listing(given: Mapping[str, Any]) -> PurgeMemories:
    """Return the command that lists what is meant; raises CommandFailed naming what is wrong."""
    try:
        listing = msgspec.convert(given, PurgeMemories)
        listing.check()
    except msgspec.ValidationError as problem:
        raise CommandFailed(f"{problem}.", ExitCode.MISUSED) from None
    except EngramqError as problem:
        raise CommandFailed(f"{problem.fault.error} {problem.fault.recovery}", ExitCode.MISUSED) from None
    return listing
