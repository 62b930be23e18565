"""What a tool is: a description that the listing, the check of arguments, the reference and the service all read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from engramq.schemas.commands import Command
from engramq.schemas.vocabulary import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """What the items of a list are, when a bad one is not to fail the call.

    Each is checked like the arguments of a call that takes the fields of `taken`. It travels as `kept`, which has these
    fields, a `check` and, for a bad item, its `fault`. `ids` are the fields that take a memory id.
    """

    taken: type[msgspec.Struct]
    kept: type[Any]
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """One tool. To add one: a Struct in schemas/commands, an entry here, a handler in the workers.

    `parameters` is the command that goes to the workers, or, for a tool that the gateway answers by itself, a plain
    Struct. `replies` are the shapes of a reply when all went well. `ids` are the parameters that take a memory id, and
    so also a reference such as @stored. `session` says whether the tool takes a session; one with `ids` always does.
    `batches` are the parameters whose items are checked one by one. `aliases` are other words for parameters, accepted
    but not listed. `local` tools are answered by the gateway itself.
    """

    name: str
    title: str
    summary: str
    example: str
    parameters: type[msgspec.Struct]
    replies: tuple[type[msgspec.Struct], ...]
    core: bool = False
    ids: tuple[str, ...] = ()
    session: bool = False
    batches: Mapping[str, Items] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    @property
    def description(self) -> str:
        """What a client's model reads: at most 300 characters, with an example call."""
        return f"{self.summary} Example: {self.example}"

    @property
    def local(self) -> bool:
        """Whether the gateway answers without asking a worker."""
        return not issubclass(self.parameters, Command)

    @property
    def write(self) -> bool:
        """Whether it changes what is stored, and so takes an idempotency key."""
        return issubclass(self.parameters, Command) and self.parameters.write

    @property
    def scope(self) -> Scope:
        """What the caller must be allowed to do."""
        return self.parameters.scope if issubclass(self.parameters, Command) else Scope.READ

    @property
    def takes_session(self) -> bool:
        """Whether `session` is among its parameters."""
        return self.session or bool(self.ids)

    @property
    def annotations(self) -> dict[str, Any]:
        """The hints of the protocol, each one explicit: clients assume the worst of a hint that is missing."""
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent or self.read_only,
            "openWorldHint": False,
        }
