"""What `engramq purge` is to list, checked before anything is started."""

from collections.abc import Mapping
from typing import Any

from engramq.gateway.cli.checked import checked
from engramq.schemas.commands import PurgeMemories


def purge_listing(given: Mapping[str, Any]) -> PurgeMemories:
    """Return the command that lists what is meant; raises CommandFailed naming what is wrong."""
    return checked(given, PurgeMemories)
