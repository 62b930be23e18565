"""Define what travels around a command and around its answer."""

from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from engramq.schemas.commands import AnyCommand, AnyReply
from engramq.schemas.faults import Fault
from engramq.schemas.vocabulary import EVERY_PROJECT, Scope, Visibility

SCHEMA_VERSION: Final = 1
UNSAID_SESSION: Final = "default"  # of gateways that left a session out which they called so; one that has none says ""


class PrincipalId(NamedTuple):
    """The identity of a principal: one name, trusted and untrusted, is two principals, which share nothing."""

    name: str
    untrusted: bool = False


class Principal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The caller, as the authenticated channel names it; never from a tool argument.

    `visibility`: of what it stores without saying, UNSET: as the namespace has it. `acts_for`: the trusted principal
    whose session a hook watches: what that one keeps private is the hook's own. `actor`: in whose name it reclassifies
    edges where it says nothing; "": in its own.
    """

    name: str
    scopes: tuple[Scope, ...] = ()
    untrusted: bool = False
    visibility: Visibility | UnsetType = UNSET
    acts_for: str = ""
    actor: str = ""

    @property
    def identity(self) -> PrincipalId:
        """The id by which a namespace tells this principal from every other one."""
        return PrincipalId(self.name, self.untrusted)

    @property
    def writers(self) -> frozenset[str]:
        """The names that its own memories have as their writer: its own, and whose session it watches."""
        return frozenset(filter(None, (self.name, self.acts_for)))


AUDITED_TOGETHER: Final = "together"  # among the new values of an entry in the audit log: the id of an action on many


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command on its way. A retry is a new copy with a higher `attempt`; `stops` of those before ended because their
    worker was stopped.

    Times are seconds since the epoch, by the clock of Redis. `deadline` is when the asker stops waiting: a read past it
    is dropped, a write is not. `session`: "" where the caller named none; then there are no breadcrumbs, and the call
    counts as a use of a session that is the principal's own. `in_session`: the tool takes a session, so the call is a
    use of it. `references`: what the caller wrote in place of ids, such as `@stored`, and the id that each stood for.
    `reply_to` is the key of the asker's reply list, empty when nobody waits. `fingerprint` is a digest of command and
    arguments, to tell a repeated idempotency key from a reused one. `refusal`: what the command is refused with, unless
    its key is a repeated one. `project`: the caller's own, for commands that name none; "": none.
    `together`: the id of an action on many of which this command is one; the audit log keeps it.
    """

    id: str
    namespace: str
    principal: Principal
    command: AnyCommand
    session: str = UNSAID_SESSION
    in_session: bool = False
    references: dict[str, str] = {}
    issued_at: float = 0.0
    deadline: float = 0.0
    attempt: int = 1
    stops: int = 0
    reply_to: str = ""
    idempotency_key: str | None = None
    fingerprint: str = ""
    refusal: Fault | None = None
    traceparent: str | None = None
    project: str = ""
    together: str = ""
    version: int = SCHEMA_VERSION

    def project_named(self, project: str | UnsetType = UNSET) -> str | None:
        """Return the project that a command which names this one is about: EVERY_PROJECT all of them, None none."""
        return (self.project if project is UNSET else project) or None

    def command_in_project(self) -> AnyCommand:
        """Return the command with the project that it is about by its name."""
        if self.project and getattr(self.command, "project", None) is UNSET:
            return msgspec.structs.replace(self.command, project=self.project)
        return self.command


def seen_projects(project: str | None, *, alone: bool = False) -> tuple[str | None, ...] | None:
    """Return the projects whose memories the fragment `in_project_asked` lets through; None: all of them."""
    if project == EVERY_PROJECT:
        return None
    return (project,) if alone else (None, project)


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to the command with this id: exactly one of `reply` and `fault`. `replayed`: carried out before."""

    id: str
    reply: AnyReply | None = None
    fault: Fault | None = None
    replayed: bool = False
    version: int = SCHEMA_VERSION
