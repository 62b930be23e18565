"""Say who is calling and what they may do. Identity comes from the channel, never from an argument of a tool."""

from dataclasses import dataclass
from typing import Final, TypeVar

from msgspec import UNSET, Struct, structs

from engramq.schemas import commands
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES, Partition, Scope, Verification

_OPEN_TO_UNTRUSTED: Final = (
    commands.StoreMemory,
    commands.ImportMemories,
    commands.SupersedeMemory,
    commands.Connect,
    commands.Connects,
    commands.Disconnect,
)  # of the writes

CALLER: Final = "engramq.caller"  # the key of an HTTP request's scope under which its Caller stands


C = TypeVar("C", bound=commands.Command)


@dataclass(frozen=True, slots=True)
class Caller:
    """A principal in its namespace. `session` and `project` are its channel's, for calls that name none; "": none."""

    namespace: str
    principal: Principal
    session: str = ""
    project: str = ""


def local_caller(namespace: str, principal: str, session: str = "", project: str = "", *, actor: str = "") -> Caller:
    """Return the caller at the other end of a channel that only this user can open: every scope."""
    return Caller(namespace, Principal(name=principal, scopes=ALL_SCOPES, actor=actor), session, project)


def untrusted_caller(
    namespace: str, principal: str, session: str = "", project: str = "", *, acts_for: str = ""
) -> Caller:
    """Return the caller at the other end of such a channel that has said itself that it is not to be trusted."""
    scopes = (Scope.READ, Scope.WRITE)
    restricted = Principal(name=principal, scopes=scopes, untrusted=True, acts_for=acts_for)
    return Caller(namespace, restricted, session, project)


def token_caller(identity: commands.Identity) -> Caller:
    """Return the caller whose a token is."""
    principal = Principal(
        name=identity.principal, scopes=identity.scopes, untrusted=identity.untrusted, visibility=identity.visibility
    )
    return Caller(identity.namespace, principal, project=identity.project)


def settings_caller(settings: Settings) -> Caller:
    """Return the one caller of unauthenticated HTTP, which is served on loopback only."""
    return local_caller(settings.namespace, settings.principal, project=settings.project)


def authorize(command: C, principal: Principal) -> C:
    """Return a command as the principal may send it; raises EngramqError with `forbidden`, naming the scope.

    It also decides what an untrusted principal may write at all; look-ups decide that such writes reach only untrusted
    memories.
    """
    if command.scope not in principal.scopes:
        raise _refuse_without(command.scope, principal)
    if isinstance(command, commands.StoreMemory) and command.verification is not Verification.UNVERIFIED:
        require(Scope.VERIFY, principal)  # to vouch for a memory while storing it
    if isinstance(command, commands.ReclassifySector) and command.actor not in (UNSET, principal.name):
        require(Scope.ADMIN, principal)  # to act in another's name
    if principal.untrusted and command.write:
        _authorize_untrusted(command)
    if principal.untrusted and isinstance(command, commands.StoreMemory):
        return structs.replace(command, partition=Partition.UNTRUSTED)
    return command


def may_send(kind: type[Struct], scope: Scope, principal: Principal) -> bool:
    """Say whether the principal may send some command of this kind, which needs this scope."""
    if scope not in principal.scopes:
        return False
    writes = issubclass(kind, commands.Command) and kind.write
    return not (principal.untrusted and writes) or issubclass(kind, _OPEN_TO_UNTRUSTED)


def admit(kind: type[Struct], scope: Scope, principal: Principal) -> None:
    """Return if the principal may send some command of this kind; raises EngramqError with `forbidden`, saying why."""
    if not may_send(kind, scope, principal):
        require(scope, principal)
        raise _refuse_untrusted()


def require(scope: Scope, principal: Principal) -> None:
    """Return if the principal has the scope; raises EngramqError with `forbidden`, naming it."""
    if scope not in principal.scopes:
        raise _refuse_without(scope, principal)


def _authorize_untrusted(command: commands.Command) -> None:
    """Pass commands that may concern untrusted memories alone; the workers check the ids, under their locks.

    connect_by_query finds trusted memories only, and record_outcome moves ranks: both are refused here.
    """
    match command:
        case commands.StoreMemory(verification=verification) if verification is not Verification.UNVERIFIED:
            raise _refuse("An untrusted principal may not vouch for memories.")
        case commands.StoreMemory(partition=Partition.TRUSTED):
            raise refuse(FaultCode.UNTRUSTED_SOURCE, "An untrusted principal cannot store into trusted.")
    if not isinstance(command, _OPEN_TO_UNTRUSTED):
        raise _refuse_untrusted()


def _refuse_untrusted() -> EngramqError:
    return _refuse("An untrusted principal may only read, store, link and supersede.")


def _refuse(error: str) -> EngramqError:
    return refuse(FaultCode.FORBIDDEN, error)


def _refuse_without(scope: Scope, principal: Principal) -> EngramqError:
    return _refuse(f"This needs the scope {scope.value!r}, which {principal.name!r} does not have.")
