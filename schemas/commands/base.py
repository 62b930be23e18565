"""Define what commands and replies share, and a tool: one declaration that every door, page and client reads.

A command's fields are its tool's parameters: names, bounds and defaults here are what the tool's JSON Schema shows. New
fields always have defaults, so that bytes of any released version decode in the next.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Final, get_args

import msgspec
from msgspec import UNSET, UnsetType

from engramq.schemas.fields import field_rules, refuse_wrong_fields
from engramq.schemas.records import ReferencedMemory
from engramq.schemas.vocabulary import Scope, WorkerKind


class Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """A request to a worker. It says which mailbox takes it and what scope it needs, where that is not the usual one.

    `write` commands change what is stored: they are in the ledger, take an idempotency key, outlive their deadline, and
    their reply carries the command id.
    """

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL
    scope: ClassVar[Scope] = Scope.READ
    write: ClassVar[bool] = False
    gathered: ClassVar[bool] = (
        False  # sent by workers a moment later, joined with others, and lost by a crash until then
    )

    patience_s: ClassVar[float | None] = None  # how long a gateway waits for its answer, None: as for most

    def check(self) -> None:
        """Raise EngramqError naming the parameter for what its JSON Schema cannot say: here of times and a name."""
        refuse_wrong_fields(self)

    def joined(self, other: "Command") -> "Command | None":  # noqa: ARG002 - most commands are carried out by themselves
        """Return one command that does the work of this one and another of its type; None when there is none."""
        return None


class WriteCommand(Command, frozen=True, kw_only=True):
    """A command that changes what is stored."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.PROMOTION
    scope: ClassVar[Scope] = Scope.WRITE
    write: ClassVar[bool] = True


class Reply(msgspec.Struct, kw_only=True, tag_field="type"):
    """The answer of a worker that carried a command out; refusals travel as Fault.

    `resolved_references`: what each reference that the call used stood for. `later` names what get_command alone shows:
    what is too long for the reply to the call itself.
    """

    later: ClassVar[frozenset[str]] = frozenset()

    resolved_references: dict[str, ReferencedMemory] | UnsetType = UNSET


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


REST_PREFIX: Final = "/v1"
_HOLE: Final = re.compile(r"\{(\w+)\}", re.ASCII)
_WITH_QUERY: Final = frozenset({"GET", "DELETE"})  # the others have a JSON body


class ExampleCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call, as a client makes it.

    `<name>` as a value stands for that field of an earlier step's reply, `<stored.id>` for a field within one.
    """

    tool: str
    arguments: dict[str, Any]

    @classmethod
    def of(cls, tool: str, /, **arguments: Any) -> "ExampleCall":
        """Return the call of a tool with these arguments."""
        return cls(tool=tool, arguments=arguments)


class ToolGuide(msgspec.Struct, frozen=True, kw_only=True):
    """One tool, for an agent that has to decide whether to call it; `example` works once `before` has been called."""

    what: str
    when: str
    when_not: str
    cost: str
    returns: str
    next: str
    before: tuple[ExampleCall, ...] = ()
    example: ExampleCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """The schema of a list's items, where one bad item must not fail the call.

    Each is checked like the arguments of a call that takes the fields of `taken`. It travels as `kept`, which has these
    fields, a `check` and, for a bad item, its `fault`. `ids` are the fields that take a memory id. Where the fields are
    not `listed`, the description of the list says what an item is, and the docs show them.
    """

    taken: type[msgspec.Struct]
    kept: type[Any]
    ids: tuple[str, ...] = ()
    listed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """One tool: everything that is said of it anywhere. CONTRIBUTING.md says how to add one.

    `parameters` is the command that goes to the workers, whose tag is the tool's name, or, for a tool that the gateway
    answers by itself, a plain Struct, and then `name` is given. `replies` are the shapes of a reply when all went well.
    `rest` is its method and path in REST, with parameters in braces, each a whole segment: a GET where no parameter is
    long or secret, since queries end up in logs of proxies. `client_name` is what our clients call it, in snake case.
    `guide` says what the listing has no room for, and repeats neither its summary nor the parameters.

    `ids` are the parameters that take a memory id, and so also a reference such as @stored. `session` says whether the
    tool takes a session; one with `ids` always does. `detailed`: its replies hold memories, and it takes detail; such a
    one is `bounded` too: it takes max_chars. `ids_only`: it takes no reference, since what it does to the wrong memory
    does harm; see also `Service`. `batches` names the parameters whose items are checked one by one; `reports` sends
    progress to a waiting client that asked for it. `aliases` are other words for parameters, accepted but not listed.
    `shown_as_not_empty` are the parameters whose least length is listed. `core` and `everyday` are the parameters that
    the profiles of these names list, which take the others too; a tool without any is not listed there.
    `always_loaded`: a client that loads schemas of tools when a model asks for them is to load this one at once.

    The last fields follow from the others: `takes_session`; `takes_references` (in place of ids, also in evidence);
    `checks` (its command is checked for what the schema cannot say); `write` (it changes what is stored, and so takes
    an idempotency key); `scope` (what the caller must be allowed to do); `description` (what a client's model reads: at
    most 400 characters that say what it does, when to call it and when not, with an example call); `annotations` (the
    hints of the protocol: `idempotentHint` only where it is true of a write, since its default is false;
    `destructiveHint` of every write, since clients assume the worst where it is missing; neither of a read, where they
    mean nothing to the protocol); for REST `method`, `path`, `in_path` (the parameters in the path) and `has_body`
    (whether the others come as JSON, else in the query).
    """

    title: str
    summary: str
    example: str
    parameters: type[msgspec.Struct]
    replies: tuple[type[msgspec.Struct], ...]
    rest: str
    client_name: str
    guide: ToolGuide
    name: str = ""
    core: tuple[str, ...] = ()
    everyday: tuple[str, ...] = ()
    always_loaded: bool = False
    ids: tuple[str, ...] = ()
    ids_only: bool = False
    session: bool = False
    detailed: bool = False
    bounded: bool = False
    batches: Mapping[str, Items] = field(default_factory=dict)
    reports: bool = False
    aliases: Mapping[str, str] = field(default_factory=dict)
    shown_as_not_empty: tuple[str, ...] = ()
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    takes_session: bool = field(init=False)
    takes_references: bool = field(init=False)
    checks: bool = field(init=False)
    write: bool = field(init=False)
    scope: Scope = field(init=False)
    description: str = field(init=False)
    annotations: Mapping[str, Any] = field(init=False)
    method: str = field(init=False)
    path: str = field(init=False)
    in_path: tuple[str, ...] = field(init=False)
    has_body: bool = field(init=False)

    def __post_init__(self) -> None:
        """Set the fields that follow from the others."""
        command = self.parameters if issubclass(self.parameters, Command) else None
        method, _, path = self.rest.partition(" ")
        following = {
            "name": self.name or self.parameters.__struct_config__.tag,
            "bounded": self.bounded or self.detailed,
            "takes_session": self.session or bool(self.ids),
            "takes_references": bool(self.ids or self.batches) or "evidence" in self.parameters.__struct_fields__,
            "checks": command is not None and (command.check is not Command.check or bool(field_rules(command))),
            "write": command is not None and command.write,
            "scope": Scope.READ if command is None else command.scope,
            "description": f"{self.summary} Example: {self.example}",
            "annotations": {
                # A tool that writes is the protocol's default, which the listing need not repeat.
                **({"readOnlyHint": True} if self.read_only else {"destructiveHint": self.destructive}),
                **({"idempotentHint": True} if self.idempotent and not self.read_only else {}),
                "openWorldHint": False,
            },
            "method": method,
            "path": REST_PREFIX + path,
            "in_path": tuple(_HOLE.findall(path)),
            "has_body": method not in _WITH_QUERY,
        }
        for name, value in following.items():
            object.__setattr__(self, name, value)


_NO_GUIDE: Final = ToolGuide(what="", when="", when_not="", cost="", returns="", next="", example=ExampleCall.of(""))


def unlisted(command: type[Command], reply: type[Reply], example: str) -> Tool:
    """Return a tool for people and their commands: no model is listed it, so that nothing describes it."""
    return Tool(
        parameters=command,
        replies=(reply,),
        rest="",
        client_name="",
        title="",
        summary="",
        example=example,
        guide=_NO_GUIDE,
    )


@cache
def replies_by_status(tool: Tool) -> Mapping[str, type[msgspec.Struct]]:
    """Return the Structs of a tool's replies by their `status`; none where that word does not tell them apart."""
    words = [(word, reply) for reply in tool.replies for word in _statuses(reply)]
    by_status = dict(words)
    return by_status if len(by_status) == len(words) else {}


def _statuses(reply: type[msgspec.Struct]) -> list[str]:
    status: Any = next(field.type for field in msgspec.structs.fields(reply) if field.name == "status")
    return [str(word) for word in (get_args(status) or status)]
