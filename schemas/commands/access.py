"""Commands on a namespace as a whole: its bearer tokens, what it holds, its deletion. None is a tool.

The page sends those on tokens, the command line the others.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits, parts
from engramq.schemas.commands.base import Command, Reply, WriteCommand, WriteReply
from engramq.schemas.faults import invalid
from engramq.schemas.fields import Identifier, Moment, Name, Note, refuse_control_characters
from engramq.schemas.records import TokenRecord
from engramq.schemas.vocabulary import SYSTEM_PRINCIPAL, Scope, Thing, WorkerKind

_DIGEST: Final = re.compile("[0-9a-f]{64}")


class ListTokens(Command, frozen=True, kw_only=True, tag="list_tokens"):
    """List tokens of the namespace: those that count first, then the newest; revoked and expired ones too."""

    scope: ClassVar[Scope] = Scope.ADMIN


class TokenList(Reply, kw_only=True, tag="tokens"):
    """At most TOKENS of the namespace; never the tokens themselves. `omitted`: how many more there are."""

    status: Literal["success"] = "success"
    tokens: list[TokenRecord]
    omitted: int = 0


class CreateToken(WriteCommand, frozen=True, kw_only=True, tag="create_token"):
    """Let somebody in by a token of the namespace. It is made where it is shown: only its SHA-256 (hex) travels.

    It may do no more than who makes it, and it expires.
    """

    scope: ClassVar[Scope] = Scope.ADMIN

    token_sha256: Identifier
    principal: Annotated[Name, Meta(description="Principal of the token")]
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=len(Scope))]
    expires_at: Moment
    untrusted: bool = False
    project: Name | UnsetType = UNSET
    label: Annotated[Name, Meta(description="Its purpose")] | UnsetType = UNSET

    def check(self) -> None:
        """Refuse a name of our own, what is no digest, and a time that has passed or is too far away."""
        super().check()
        refuse_control_characters(principal=self.principal, label=self.label)
        if _DIGEST.fullmatch(self.token_sha256) is None:
            raise invalid("token_sha256", "token_sha256 is no SHA-256 in hexadecimal.")
        if self.principal == SYSTEM_PRINCIPAL:
            raise invalid("principal", f"{SYSTEM_PRINCIPAL!r} is engramq's own name.", "Give another one.")
        now = datetime.now(UTC)
        if not now < self.expires_at <= now + timedelta(days=limits.TOKEN_DAYS):
            raise invalid(
                "expires_at",
                f"expires_at is not within the next {limits.TOKEN_DAYS} days.",
                "Give a nearer time. `engramq token create` makes tokens that last.",
            )


class TokenCreated(WriteReply, kw_only=True, tag="token_created"):
    """The token as the list shows it."""

    status: Literal["created"] = "created"
    token: TokenRecord


class RevokeToken(WriteCommand, frozen=True, kw_only=True, tag="revoke_token"):
    """Let a token of the namespace count no longer."""

    scope: ClassVar[Scope] = Scope.ADMIN

    token_id: Identifier
    reason: Note | UnsetType = UNSET


class TokenRevoked(WriteReply, kw_only=True, tag="token_revoked"):
    """The token as it is now; `already_revoked`: it did not count before.

    `what` and `hint` are set when there is no such token.
    """

    status: Literal["revoked", "already_revoked", "not_found"]
    token: TokenRecord | None = None
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


class DescribeTenant(Command, frozen=True, kw_only=True, tag="describe_tenant"):
    """Ask what the namespace holds."""

    scope: ClassVar[Scope] = Scope.ADMIN


class TenantDescribed(Reply, kw_only=True, tag="tenant_described"):
    """The contents of a namespace, counted; `content_bytes` counts its memories' contents.

    not_found: nobody ever wrote to it.
    """

    status: Literal["success", "not_found"] = "success"
    memory_count: int = 0
    node_count: int = 0
    edge_count: int = 0
    link_count: int = 0
    token_count: int = 0
    webhook_count: int = 0
    content_bytes: int = 0
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


class DeleteTenant(WriteCommand, frozen=True, kw_only=True, tag="delete_tenant"):
    """Erase for good everything that the namespace holds, its bearer tokens first; the audit log stays."""

    scope: ClassVar[Scope] = Scope.ADMIN

    reason: Note | UnsetType = UNSET


class ExportTenant(Command, frozen=True, kw_only=True, tag="export_tenant"):
    """Ask for all that the namespace or a project of it holds, in parts that come by a channel. The page sends it."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.IMPORTS
    scope: ClassVar[Scope] = Scope.ADMIN
    patience_s: ClassVar[float | None] = parts.LONGEST_S

    channel: Name
    project: Name | UnsetType = UNSET


class TenantExported(Reply, kw_only=True, tag="tenant_exported"):
    """How many records were sent."""

    status: Literal["success"] = "success"
    records: int


class TenantDeleted(WriteReply, kw_only=True, tag="tenant_deleted"):
    """How much was erased, by all tries at the command."""

    status: Literal["deleted"] = "deleted"
    memory_count: int = 0
    node_count: int = 0
    edge_count: int = 0
    link_count: int = 0
    token_count: int = 0
