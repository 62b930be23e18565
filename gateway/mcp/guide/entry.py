"""What the guide says of one tool, and of the whole."""

from typing import Any

import msgspec


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One call, as a client makes it.

    `<name>` as a value stands for that field of an earlier step's reply, `<stored.id>` for a field within one.
    """

    tool: str
    arguments: dict[str, Any]


class ToolGuide(msgspec.Struct, frozen=True, kw_only=True):
    """One tool, for an agent that has to decide whether to call it; `example` works once `before` has been called."""

    what: str
    when: str
    when_not: str
    cost: str
    returns: str
    next: str
    before: tuple[Step, ...] = ()
    example: Step


class Overview(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to work with the whole; `topics` are the names that the guide knows, by area. What a reader has no tool for
    is left out.
    """

    what: str = ""
    way_of_working: tuple[str, ...] = ()
    references: str = ""
    replies: str = ""
    partitions: str = ""
    links: str = ""
    facts: str = ""
    errors: str = ""
    examples: str = ""
    topics: dict[str, tuple[str, ...]]
