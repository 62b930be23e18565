"""Field types that commands share: what a text, an id, a score may be. The bounds appear in the tools' JSON Schemas."""

from datetime import datetime
from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.faults import invalid
from engramq.schemas.vocabulary import EVERY_PROJECT

T = TypeVar("T")

NOT_BLANK = r"\S"

Content = Annotated[str, Meta(min_length=1, max_length=limits.CONTENT_CHARS, pattern=NOT_BLANK)]
Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS, pattern=NOT_BLANK)]
Note = Annotated[str, Meta(min_length=1, max_length=limits.NOTE_CHARS, pattern=NOT_BLANK)]
Cursor = Annotated[str, Meta(min_length=1, max_length=limits.CURSOR_CHARS, description="next_cursor of the last page")]
Identifier = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS, pattern=NOT_BLANK)]
Tags = Annotated[tuple[Name, ...], Meta(max_length=limits.TAGS, extra_json_schema={"uniqueItems": True})]
MemoryReference = Annotated[Identifier, Meta(description="Memory id, @stored or @recalled[N]")]
MemoryId = Annotated[Identifier, Meta(description="Memory id; no reference")]
SessionName = Annotated[str, Meta(min_length=1, max_length=limits.SESSION_CHARS, pattern=NOT_BLANK)]
IdempotencyKey = Annotated[str, Meta(min_length=1, max_length=limits.IDEMPOTENCY_KEY_CHARS, pattern=NOT_BLANK)]
UnitInterval = Annotated[float, Meta(ge=0, le=1)]
Position = Annotated[int, Meta(ge=0, le=limits.POSITION_MAX)]
Moment = Annotated[datetime, Meta(tz=True)]
Properties = dict[str, Any]
Occurrence = Annotated[Moment, Meta(description="When it happened: time or date")]
Confidence = Annotated[UnitInterval, Meta(description="How sure you are")]
Speaker = Annotated[Name, Meta(description="Who said it")]
Thread = Annotated[Name, Meta(description="Conversation or document")]
ThreadPosition = Annotated[Position, Meta(description="Order within the thread")]


def or_none(value: T | UnsetType) -> T | None:
    """Return the value of a field, None where it was not given."""
    return None if value is UNSET else value


def refuse_every_project(project: str | UnsetType) -> None:
    """Raise EngramqError for what stands for all projects, where one is wanted."""
    if project == EVERY_PROJECT:
        raise invalid("project", f"project {EVERY_PROJECT!r} stands for all of them: a memory is in one, or in none.")
