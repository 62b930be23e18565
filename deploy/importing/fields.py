"""Say where an item of another program has what a memory holds: each such format is declared, and read in one way."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from engramq.deploy.importing.exports import Entry, LeftOut, moment, own_id, tags, without_nothing
from engramq.deploy.importing.records import UncheckedRow
from engramq.schemas.fields import OFFSETS

# By these the router keeps a turn apart: nobody has looked through it, and a tool says what others have written.
TURN: Final = "conversation"
TOOL_OUTPUT: Final = "tool_output"
USER: Final = "user"
ASSISTANT: Final = "assistant"
SPOKEN_BY: Final = (USER, ASSISTANT)
SINCE: Final = "valid_from"  # the fields of a row that say when it was so, and until when
WHEN: Final = "occurred_at"
OFFSET: Final = OFFSETS[WHEN]
UNTIL: Final = "valid_until"
ENDS: Final = "expires_at"
NO_TEXT: Final = LeftOut("messages without text", "message without text")
ATTACHMENTS: Final = LeftOut("attached files", "attached file")
NOT_SPOKEN: Final = LeftOut("messages of the system and of tools", "message of the system or of a tool")


@dataclass(frozen=True, slots=True)
class Choices:
    """The user's choices for conversations: to have the other messages too, and to trust what was said."""

    all_messages: bool = False
    trusted: bool = False


# Reads a file or folder from its beginning, each time that it is called. Raises UnusableFile, also midway.
Reader: TypeAlias = Callable[[Path, Choices], Iterator[Entry]]


def source_of(choices: Choices) -> str | None:
    """Return the source type of what was said: none where somebody has looked through it."""
    return None if choices.trusted else TURN


def value_at(item: object, place: str) -> Any:
    """Return what stands at a place, such as "system.createdAt"; None where nothing does."""
    for name in place.split("."):
        item = item.get(name) if isinstance(item, dict) else None
    return item


def list_at(item: object, place: str) -> list[Any]:
    """Return the list that stands at a place; an empty one where none does."""
    value = value_at(item, place)
    return value if isinstance(value, list) else []


def clean_text(value: object) -> str:
    """Return a text without the white space around it; "" for what is none."""
    return value.strip() if isinstance(value, str) else ""


def join_texts(several: Iterable[object]) -> str:
    """Return the texts among several values, a blank line between them."""
    return "\n\n".join(filter(None, map(clean_text, several)))


def first_at(item: dict[str, Any], places: tuple[str, ...]) -> Any:
    """Return what stands at the first of several places that has something."""
    return next((value for place in places if (value := value_at(item, place)) not in (None, "", [], {})), None)


def make_memory_row(item: UncheckedRow, text: str, identifier: str, choices: Choices, about: str = "") -> UncheckedRow:
    """Return what a program remembers of a person, as a row: a model has written it, so it is kept apart, too."""
    values = {
        "content": text,
        "external_id": identifier,
        "source_type": source_of(choices),
        WHEN: moment(item.values.get("updated_at")),
        "metadata": {"about": about} if about else None,
    }
    return UncheckedRow(item.line, without_nothing(values))


@dataclass(frozen=True, slots=True)
class ItemFields:
    """The places of a memory's fields in an item of the format `kind`; of several the first that says something counts.

    All `tags` count; the fields `kept` stand in the metadata under the format's name, beside the item's own.
    """

    kind: str
    content: tuple[str, ...]
    identifier: tuple[str, ...] = ("id",)
    when: tuple[str, ...] = ()
    until: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    thread: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def entry(self, item: UncheckedRow, **more: Any) -> UncheckedRow:
        """Return an item as a row, with `more` of its fields."""
        values = item.values
        metadata = dict(given) if isinstance(given := values.get("metadata"), dict) else {}
        if kept := without_nothing({name: values.get(name) for name in self.kept}):
            metadata[self.kind] = kept
        known = first_at(values, self.identifier)
        row = {
            "content": first_at(values, self.content),
            "external_id": own_id(self.kind, known) if known else None,
            WHEN: moment(first_at(values, self.when)),
            UNTIL: moment(first_at(values, self.until)),
            ENDS: moment(first_at(values, self.ends)),
            "thread": first_at(values, self.thread),
            "tags": tags(*(value_at(values, place) for place in self.tags)),
            "metadata": metadata,
        }
        return UncheckedRow(item.line, without_nothing(row | more), item.file)


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation of the format `kind`, which begins on a line of its file; `marks`: tags of its turns."""

    kind: str
    line: int
    identifier: object
    choices: Choices
    title: object = None
    marks: tuple[str, ...] = ()

    def turn(self, message: object, position: int | None, speaker: object, text: str, at: object) -> UncheckedRow:
        """Return one message as a row: its conversation is the thread, and by its own id it is known again."""
        is_spoken = speaker in SPOKEN_BY
        values: dict[str, Any] = {
            "content": text,
            "external_id": own_id(self.kind, message) if message else None,
            "thread": own_id(self.kind, self.identifier) if self.identifier else None,
            "position": position,
            "speaker": speaker,
            WHEN: moment(at),
            "source_type": source_of(self.choices) if is_spoken else TOOL_OUTPUT,
            "metadata": {"title": self.title} if isinstance(self.title, str) and self.title else None,
            "tags": list(self.marks),
        }
        return UncheckedRow(self.line, without_nothing(values))
