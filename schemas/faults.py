"""Errors as data: their codes, how to recover, the exception that carries them; and replies that say not_found."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from engramq.schemas.contents import Contents
from engramq.schemas.records import ReferencedMemory
from engramq.schemas.vocabulary import Status, Thing


class FaultCode(StrEnum):
    """Why a request was refused: the word, its status in HTTP and the usual recovery. Part of the contract."""

    http_status: int
    recovery: str

    def __new__(cls, word: str, http_status: int = 500, recovery: str = "") -> "FaultCode":
        """Return the code: its word, its status in HTTP, and what the caller can do about it."""
        code = str.__new__(cls, word)
        code._value_ = word
        code.http_status, code.recovery = http_status, recovery
        return code

    # A sentence that names a tool stands alone: it is left out where the caller has no such tool.
    INVALID_PARAMETER = "invalid_parameter", 400, "Correct the named parameter and call again."
    SELF_LOOP = "self_loop", 400, "Give two different memories."
    MEMORY_NOT_ACTIVE = (
        "memory_not_active",
        409,
        "Use another memory: the refusal says which, or what brings this one back.",
    )
    DEGREE_LIMIT = (
        "degree_limit",
        409,
        (
            "disconnect removes one of its links. get_memory with include_untrusted shows all. "
            "Or raise ENGRAMQ_DEGREE_CAP."
        ),
    )
    EDGE_EXISTS = "edge_exists", 409, 'Use if_exists="reinforce" or "update" to change the standing link.'
    RELATION_CONFLICT = (
        "relation_conflict",
        409,
        'Use if_exists="update" to change the relation of a link that is protected.',
    )
    UNTRUSTED_LINK = (
        "untrusted_link",
        409,
        "Link memories of one partition. Or memory_promote_to_trusted moves the untrusted one, once it is verified.",
    )
    RECORD_NOT_VERIFIED = (
        "record_not_verified",
        409,
        "Only what is verified or approved is promoted. verify_memory says that it is.",
    )
    UNTRUSTED_SOURCE = (
        "untrusted_source",
        409,
        'Leave partition out, or give "untrusted". Promotion is the way to trusted.',
    )
    UNTRUSTED_SUPERSEDES = (
        "untrusted_supersedes",
        409,
        "Have the new memory promoted before it replaces a trusted one.",
    )
    ALREADY_SUPERSEDED = (
        "already_superseded",
        409,
        "Supersede the memory that replaced it. Or restore_memory brings the old one back.",
    )
    SUPERSEDE_CYCLE = (
        "supersede_cycle",
        409,
        "The old memory replaces the new one: leave it so. Or restore_memory undoes that first.",
    )
    EXTERNAL_ID_TAKEN = (
        "external_id_taken",
        409,
        "Use the memory named, replace it by a new one, or give another external_id.",
    )
    IDEMPOTENCY_CONFLICT = (
        "idempotency_conflict",
        422,  # as the IETF's draft of the Idempotency-Key header has it
        "Use a fresh idempotency_key for a different request.",
    )
    QUOTA_EXCEEDED = (
        "quota_exceeded",
        403,  # not 429: to wait does not help
        "Ask the operator to raise the setting named, or to purge. forget_memory with erase makes room.",
    )
    CONFLICT = "conflict", 409, "Nothing was changed. Judge it as it is now, then give the new digest as seen."
    FORBIDDEN = (
        "forbidden",
        403,
        "Ask for a token with the scope named, or where you are untrusted, a trusted principal.",
    )
    RATE_LIMITED = "rate_limited", 429, "Wait retry_after_s seconds, then call again."
    OVERLOADED = "overloaded", 503, "Nothing was applied. Wait retry_after_s seconds, then call again."
    UNAVAILABLE = (
        "unavailable",
        503,
        "Nothing was applied. Call again in a few seconds; if it lasts, run `engramq status`.",
    )
    INTERNAL = "internal", 500, "Call again; if it lasts, report the command_id to the operator."


# Refusals that say: not applied and never will be.
NOT_APPLIED: Final = frozenset({FaultCode.OVERLOADED, FaultCode.RATE_LIMITED, FaultCode.UNAVAILABLE})


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A refusal as the client reads it.

    `field` names the parameter of an invalid one; `memory_id` the memory that stands in the way; `retry_after_s` is in
    seconds; `command_id` is on everything that reached the queue; `resolved_references` says what each reference that
    the call used stood for. On `conflict`, `changed` lists the fields that differ from what the caller saw, `digest` is
    the value that `seen` must have now, and `now` the beginning of the text; null in an answer that is given again.
    `untrusted` and `warning` where that text is untrusted.
    """

    code: FaultCode
    error: str
    recovery: str
    field: str | UnsetType = UNSET
    memory_id: str | UnsetType = UNSET
    retry_after_s: float | UnsetType = UNSET
    command_id: str | UnsetType = UNSET
    changed: list[str] | UnsetType = UNSET
    digest: str | UnsetType = UNSET
    now: Contents[str | None] | UnsetType = UNSET
    untrusted: bool | UnsetType = UNSET
    warning: str | UnsetType = UNSET
    resolved_references: dict[str, ReferencedMemory] | UnsetType = UNSET

    @property
    def status(self) -> Status:
        """The status word of the reply: bad input has one of its own."""
        return Status.INVALID_PARAMETER if self.code is FaultCode.INVALID_PARAMETER else Status.ERROR


class EngramqError(Exception):
    """Raised wherever a request is refused; carries the fault that travels to the caller."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.error)
        self.fault = fault


def refuse(
    code: FaultCode,
    error: str,
    *,
    recovery: str | None = None,
    field: str | UnsetType = UNSET,
    memory_id: str | UnsetType = UNSET,
    retry_after_s: float | UnsetType = UNSET,
) -> EngramqError:
    """Return the exception for a refusal, with the code's usual recovery unless another is given."""
    return EngramqError(
        Fault(
            code=code,
            error=error,
            recovery=recovery or code.recovery,
            field=field,
            memory_id=memory_id,
            retry_after_s=retry_after_s,
        )
    )


def invalid(field: str, error: str, recovery: str | None = None) -> EngramqError:
    """Return the exception for a bad parameter, naming it."""
    return refuse(FaultCode.INVALID_PARAMETER, error, field=field, recovery=recovery)


# A sentence that names a tool stands alone: it is left out where the caller has no such tool.
HINTS: Final[Mapping[Thing, str]] = {
    Thing.MEMORY: "There is no memory of this id. search_memories finds those that there are, with their ids.",
    Thing.LINK: "There is nothing to remove. get_memory shows the links of a memory.",
    Thing.NODE: "Names and labels count exactly as written. get_node_by_name shows names that resemble one, and ids.",
    Thing.EDGE: "Names and relations count exactly as written. graph_list_edges shows a node's edges, with their ids.",
    Thing.PROPOSAL: "There is no proposal of this id. list_proposals shows those that there are.",
    Thing.TOPIC: "Give one of topics, or none for the way of working.",
    Thing.TOKEN: "There is no token of this id in the namespace. `engramq token list` shows all that there are.",
    Thing.DELETION: "`engramq graph deleted` lists what can be restored.",
    Thing.NAMESPACE: "`engramq tenant list` shows all that there are.",
    Thing.AUDIT_ENTRY: "`engramq audit` shows what was done, each entry with its command id; plain stores have none.",
}

# The same of what was asked for by its id.
HINTS_OF_IDS: Final[Mapping[Thing, str]] = {
    Thing.NODE: "There is no named node of this id. get_node_by_name shows a node's id.",
    Thing.EDGE: "There is no edge of this id. graph_list_edges shows a node's edges, with their ids.",
}


class Missing(TypedDict):
    """The fields beside `status: "not_found"` that every such reply has but get_edge's."""

    what: Thing
    hint: str


def missing(what: Thing, hint: str = "") -> Missing:
    """Return those fields; with the usual hint, unless there is a better one."""
    return Missing(what=what, hint=hint or HINTS[what])


def missing_id(what: Thing) -> Missing:
    """Return the fields of what was asked for by its id; of a thing that is only known by one, the usual."""
    return missing(what, HINTS_OF_IDS.get(what, ""))
