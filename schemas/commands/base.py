"""What every command and every reply share.

A command's fields are its tool's parameters: names, bounds and defaults here are what the tool's JSON Schema shows. New
fields always have defaults, so that bytes of any released version decode in the next.
"""

from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from engramq.schemas.records import MemoryPreview
from engramq.schemas.vocabulary import Scope, WorkerKind


class Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """A request to a worker. Subclasses say which mailbox takes them and what scope they need.

    `write` commands change what is stored: they are in the ledger, take an idempotency key, outlive their deadline, and
    their reply carries the command id.
    """

    mailbox: ClassVar[WorkerKind]
    scope: ClassVar[Scope] = Scope.READ
    write: ClassVar[bool] = False
    gathered: ClassVar[bool] = (
        False  # sent by workers a moment later, joined with others, and lost by a crash until then
    )

    def check(self) -> None:
        """Raise EngramqError naming the parameter for what its JSON Schema cannot say."""

    def joined(self, other: "Command") -> "Command | None":  # noqa: ARG002 - most commands are carried out by themselves
        """Return one command that does the work of this one and another of its type; None when there is none."""
        return None


class Reply(msgspec.Struct, kw_only=True, tag_field="type"):
    """What a worker answers when a command was carried out; refusals travel as Fault.

    `resolved_references`: what each reference that the call used stood for. `later` names what get_command alone shows:
    what is too long for the reply to the call itself.
    """

    later: ClassVar[frozenset[str]] = frozenset()

    resolved_references: dict[str, MemoryPreview] | UnsetType = UNSET


class Page(Reply, kw_only=True):
    """A page of a list, with a field `next_cursor`: where the next one goes on, null at the end.

    Workers give a position, which the gateway seals. `listed` names the field with the items.
    """

    listed: ClassVar[str]

    def positions(self) -> list[str]:
        """Return the position just after each item: a page may have to end early, and then goes on from there."""
        raise NotImplementedError


class WriteReply(Reply, kw_only=True):
    """The answer to a write: `command_id` is what get_command takes."""

    command_id: str = ""
