"""What a purge is to take, and how the audit log tells of that."""

import hashlib
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, Self

from engramq.schemas.commands import PurgeMemories
from engramq.schemas.fields import or_none
from engramq.schemas.ids import format_time
from engramq.schemas.vocabulary import Partition, SourceType

GRAPH_STAYS: Final = (
    "Knowledge nodes, edges and links stay: they have an author and a time only. "
    "A purge by created_by, with since or until or without, takes them too."
)
_OF_ITSELF: Final = ("thread", "project")
LINKS_STAY: Final = (
    "Links that this principal made stay: only a purge that erases takes them. "
    "Those of archived memories are hidden with these."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What has to hold of a memory; None: anything may."""

    created_by: str | None
    source_type: str | None
    thread: str | None
    project: str | None
    partition: Partition | None
    since: datetime | None
    until: datetime | None
    unarchived: bool  # it is not archived already

    @classmethod
    def of(cls, command: PurgeMemories) -> Self:
        """Return the filters of a command."""
        given: dict[str, Any] = {name: or_none(getattr(command, name)) for name in cls.__dataclass_fields__}
        return cls(**given | {"unarchived": command.unarchived or command.archive})

    @property
    def take_graph(self) -> bool:
        """Whether nodes, edges and links are taken too: they have an author and a time, and nothing else of these."""
        said_of_memories = (self.source_type, self.thread, self.project, self.partition)
        return self.created_by is not None and set(said_of_memories) == {None}


def told(filters: Filters) -> dict[str, Any]:
    """Return filters as the audit log tells them: of what memories say of themselves only a digest, to compare with."""
    told: dict[str, Any] = {}
    for name, value in asdict(filters).items():
        if isinstance(value, datetime):
            told[name] = format_time(value)
        elif value is not None and (name in _OF_ITSELF or (name == "source_type" and value not in set(SourceType))):
            told[f"{name}_sha256"] = hashlib.sha256(value.encode()).hexdigest()
        elif value is not None and not isinstance(value, bool):
            told[name] = value
    return told
