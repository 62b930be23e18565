"""The HTTP status of a reply. Its body is the tool's, so a client may go by either."""

import math
from collections.abc import Mapping
from typing import Final

from engramq.gateway.rendering.budget import Body
from engramq.schemas.faults import FaultCode
from engramq.schemas.vocabulary import Status

_BAD: Final = 400
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_UNPROCESSABLE: Final = 422
_TOO_MANY: Final = 429
_FAILED: Final = 500
_AWAY: Final = 503

STATUS_OF: Final[Mapping[FaultCode, int]] = {
    FaultCode.INVALID_PARAMETER: _BAD,
    FaultCode.SELF_LOOP: _BAD,
    FaultCode.MEMORY_NOT_ACTIVE: _CONFLICT,
    FaultCode.DEGREE_LIMIT: _CONFLICT,
    FaultCode.EDGE_EXISTS: _CONFLICT,
    FaultCode.RELATION_CONFLICT: _CONFLICT,
    FaultCode.UNTRUSTED_LINK: _CONFLICT,
    FaultCode.RECORD_NOT_VERIFIED: _CONFLICT,
    FaultCode.UNTRUSTED_SOURCE: _CONFLICT,
    FaultCode.UNTRUSTED_SUPERSEDES: _CONFLICT,
    FaultCode.ALREADY_SUPERSEDED: _CONFLICT,
    FaultCode.SUPERSEDE_CYCLE: _CONFLICT,
    FaultCode.EXTERNAL_ID_TAKEN: _CONFLICT,
    FaultCode.IDEMPOTENCY_CONFLICT: _UNPROCESSABLE,  # as the IETF's draft of the Idempotency-Key header has it
    FaultCode.QUOTA_EXCEEDED: _FORBIDDEN,  # not 429: to wait does not help
    FaultCode.FORBIDDEN: _FORBIDDEN,
    FaultCode.RATE_LIMITED: _TOO_MANY,
    FaultCode.OVERLOADED: _AWAY,
    FaultCode.UNAVAILABLE: _AWAY,
    FaultCode.INTERNAL: _FAILED,
}

PENDING: Final = "pending"
MISSING: Final = frozenset({"not_found", "unknown"})  # of what was asked for; of a command that nobody knows
_RETRY_S: Final = 1  # where a refusal names no time, in seconds


def status_of(body: Body, *, write: bool) -> int:
    """Return the status of a reply: a refusal's by its code; 404, 202 (of a `write`) or 200 by its word."""
    if body["status"] in (Status.ERROR, Status.INVALID_PARAMETER):
        return STATUS_OF[FaultCode(body["code"])]
    if body["status"] in MISSING:
        return _NOT_FOUND
    return 202 if write and body["status"] == PENDING else 200


def retry_after(body: Body, status: int) -> int | None:
    """Return the whole seconds of a Retry-After header, None where the reply has none."""
    if status not in (_TOO_MANY, _AWAY):
        return None
    wait_s: float = body.get("retry_after_s", _RETRY_S)
    return max(_RETRY_S, math.ceil(wait_s))
