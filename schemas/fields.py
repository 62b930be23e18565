"""Field types that commands share: what a text, an id, a score may be. The bounds appear in the tools' JSON Schemas."""

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Final, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from engramq.schemas import limits
from engramq.schemas.faults import invalid
from engramq.schemas.ids import format_time
from engramq.schemas.vocabulary import EVERY_PROJECT, Visibility

T = TypeVar("T")

# Zero-width characters are blanks too: nobody sees them.
NOT_BLANK = r"[^\s\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
# C0, C1 with DEL, and the separators of lines and paragraphs.
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# What opens or closes a part of another direction: it turns what follows the name around. Marks that languages need (a
# joiner, the direction of a neighbour) may stand in a name.
TURNING: Final = re.compile(r"[\u202a-\u202e\u2066-\u2069]")
NAMES: Final = ("speaker", "thread", "project")  # fields of a memory that are one
NOT_IN_NAMES: Final = re.compile(f"{CONTROL.pattern}|{TURNING.pattern}")

Content = Annotated[str, Meta(min_length=1, max_length=limits.CONTENT_CHARS, pattern=NOT_BLANK)]
Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS, pattern=NOT_BLANK)]
Note = Annotated[str, Meta(min_length=1, max_length=limits.NOTE_CHARS, pattern=NOT_BLANK)]
# A text that callers copy from a reply: no blank or quote around it belongs to it, and no other word can be meant.
OPAQUE: Final = "opaque"
COPIED: Final = Meta(extra_json_schema={"format": OPAQUE})
Cursor = Annotated[
    str, Meta(min_length=1, max_length=limits.CURSOR_CHARS, description="next_cursor of the last page"), COPIED
]
Identifier = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS, pattern=NOT_BLANK), COPIED]
Tags = Annotated[tuple[Name, ...], Meta(max_length=limits.TAGS, extra_json_schema={"uniqueItems": True})]
MemoryReference = Annotated[Identifier, Meta(description="Id, @stored or @recalled[N]")]
MemoryId = Annotated[Identifier, Meta(description="Memory id; no reference")]
JudgedDigest = Annotated[Identifier, Meta(description="digest you judged")]
SessionName = Annotated[str, Meta(min_length=1, max_length=limits.SESSION_CHARS, pattern=NOT_BLANK)]
IdempotencyKey = Annotated[str, Meta(min_length=1, max_length=limits.IDEMPOTENCY_KEY_CHARS, pattern=NOT_BLANK)]
UnitInterval = Annotated[float, Meta(ge=0, le=1)]
Position = Annotated[int, Meta(ge=0, le=limits.POSITION_MAX)]
Moment = Annotated[datetime, Meta(tz=True)]
Properties = dict[str, Any]
Occurrence = Annotated[Moment, Meta(description="Time or date of it")]
Since = Annotated[Moment, Meta(description="When it happened")]
Until = Annotated[Moment, Meta(description="As since; whole date")]
StoredSince = Annotated[Moment, Meta(description="Stored then or later")]
StoredUntil = Annotated[Moment, Meta(description="Stored then or before")]
# Minutes east of UTC by which a time was given; the check fills it in, and no caller names it.
Offset = Annotated[int, Meta(ge=-1_440, le=1_440)]
OFFSETS: Final = {"occurred_at": "occurred_offset"}  # times whose offset is kept
ValidFrom = Annotated[Moment, Meta(description="Holds from then on")]
ValidUntil = Annotated[Moment, Meta(description="Holds until then")]
ExpiresAt = Annotated[Moment, Meta(description="Archived then")]
AsOf = Annotated[Moment, Meta(description="As it was then")]
Confidence = Annotated[UnitInterval, Meta(description="How sure you are")]
Speaker = Annotated[Name, Meta(description="Who said it")]
Standing = Annotated[bool, Meta(description="Asked for for good")]
SeenBy = Annotated[Visibility, Meta(description="private: you alone see it")]
Thread = Annotated[Name, Meta(description="Conversation or document")]
ThreadPosition = Annotated[Position, Meta(description="Within the thread")]


def compose_letters(value: Any) -> Any:
    """Return a text, or each text of a list, in the one form (NFC) in which it is kept; of an object the names alone.

    An object may hold bytes of another program: the path of a file, an item of a store.
    """
    match value:
        case str():
            return value if value.isascii() else unicodedata.normalize("NFC", value)
        case list() | tuple():
            return type(value)(map(compose_letters, value))
        case dict():
            return {compose_letters(name): _with_composed_names(part) for name, part in value.items()}
    return value


def _with_composed_names(value: Any) -> Any:
    match value:
        case dict():
            return compose_letters(value)
        case list():
            return [_with_composed_names(part) for part in value]
    return value


def tag_key(tag: str) -> str:
    """Return what two tags have in common that are one: they differ in case and outer blanks at most."""
    return tag.strip().lower()  # as PostgreSQL has it in `tag_keys`


def distinct_tags(tags: Iterable[str]) -> list[str]:
    """Return each tag once, as it was first written."""
    found: dict[str, str] = {}
    for tag in tags:
        found.setdefault(tag_key(tag), tag.strip())
    return list(found.values())


def or_none(value: T | UnsetType) -> T | None:
    """Return the value of a field, None where it was not given."""
    return None if value is UNSET else value


def refuse_every_project(project: str | UnsetType) -> None:
    """Raise EngramqError for what stands for all projects, where one is wanted."""
    if project == EVERY_PROJECT:
        raise invalid("project", f"project {EVERY_PROJECT!r} stands for all of them: a memory is in one, or in none.")


def refuse_control_characters(**names: str | UnsetType | None) -> None:
    """Raise EngramqError for a name with line breaks or other control characters, by its parameter.

    Such a name is no name. It ends the line that shows it, and what follows would read as somebody else's words; or it
    turns these around, or moves the cursor of a terminal.
    """
    for parameter, name in names.items():
        if isinstance(name, str) and NOT_IN_NAMES.search(name):
            raise invalid(
                parameter,
                f"{parameter} has a line break or another control character, or a mark that turns text around.",
                "Give a name without.",
            )


def refuse_wrong_fields(given: Struct) -> None:
    """Raise EngramqError for a look into the future, a backward span or interval, and a project of several lines.

    By the names of the fields: `as_of`; `since` and `until`, `stored_since` and `stored_until`; `valid_from` and
    `valid_until`; `project`, which replies name in their own words.
    """
    said: Any = given
    names = field_rules(type(given))
    if "project" in names:
        refuse_control_characters(project=said.project)
    if "as_of" in names and said.as_of is not UNSET and said.as_of > datetime.now(UTC):
        raise invalid("as_of", "as_of is later than now.", "Leave it out for what holds now and what is planned.")
    if "since" in names:
        refuse_reversed(said.since, said.until)
    if "stored_since" in names:
        refuse_reversed(said.stored_since, said.stored_until, "stored_")
    if "valid_from" in names:
        refuse_backwards(said.valid_from, said.valid_until)


@cache
def field_rules(kind: type[Struct]) -> frozenset[str]:
    """Return the fields of a kind of command by which `refuse_wrong_fields` has something to look at."""
    return frozenset(kind.__struct_fields__) & {"as_of", "since", "stored_since", "valid_from", "project"}


def refuse_backwards(valid_from: datetime | UnsetType | None, valid_until: datetime | UnsetType | None) -> None:
    """Raise EngramqError for an interval that ends before it begins, or as it does: its end is excluded."""
    if isinstance(valid_from, datetime) and isinstance(valid_until, datetime) and valid_until <= valid_from:
        raise invalid(
            "valid_until",
            f"valid_until, {format_time(valid_until)}, is not later than valid_from, {format_time(valid_from)}.",
            "Give a later valid_until, an earlier valid_from, or leave one of them out.",
        )


def refuse_reversed(since: datetime | UnsetType, until: datetime | UnsetType, prefix: str = "") -> None:
    """Raise EngramqError for a span of time that ends before it begins; both ends are included.

    `prefix`: of the names of both parameters.
    """
    if since is not UNSET and until is not UNSET and until < since:
        raise invalid(
            f"{prefix}until",
            f"{prefix}until, {format_time(until)}, is earlier than {prefix}since, {format_time(since)}.",
            f"Give a later {prefix}until, an earlier {prefix}since, or leave one of them out.",
        )
