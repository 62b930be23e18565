"""Commands on a whole tenant: what it holds, and its deletion. Sent by the command line, never by a client."""

from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType

from engramq.schemas.commands.base import Command, Reply, WriteReply
from engramq.schemas.fields import Note
from engramq.schemas.vocabulary import Scope, Thing, WorkerKind


class DescribeTenant(Command, frozen=True, kw_only=True, omit_defaults=True, tag="describe_tenant"):
    """Ask what the namespace holds."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL
    scope: ClassVar[Scope] = Scope.ADMIN


class TenantDescribed(Reply, kw_only=True, tag="tenant_described"):
    """What a namespace holds; `content_bytes` are of its memories' contents. not_found: nobody ever wrote to it."""

    status: Literal["success", "not_found"] = "success"
    memory_count: int = 0
    node_count: int = 0
    edge_count: int = 0
    link_count: int = 0
    token_count: int = 0
    content_bytes: int = 0
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


class DeleteTenant(Command, frozen=True, kw_only=True, omit_defaults=True, tag="delete_tenant"):
    """Erase for good everything that the namespace holds, its bearer tokens first; the audit log stays."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.PROMOTION
    scope: ClassVar[Scope] = Scope.ADMIN
    write: ClassVar[bool] = True

    reason: Note | UnsetType = UNSET


class TenantDeleted(WriteReply, kw_only=True, tag="tenant_deleted"):
    """How much was erased, by all tries at the command."""

    status: Literal["deleted"] = "deleted"
    memory_count: int = 0
    node_count: int = 0
    edge_count: int = 0
    link_count: int = 0
    token_count: int = 0
