"""How an installation is, as one look finds it: what `up`, `status`, `doctor`, /readyz, /metrics and the page tell."""

from typing import Literal

import msgspec

from engramq.schemas.vocabulary import WorkerKind


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that has to be right. `told` says what is wrong and `mend` how to mend it, both as sentences.

    `failed`: nothing is answered without it. `degraded`: reads are, or it will soon be felt.
    """

    name: str
    state: Literal["ok", "degraded", "failed"] = "ok"
    told: str = ""
    mend: str = ""


class MailboxState(msgspec.Struct, frozen=True, kw_only=True):
    """One mailbox. `depth`: commands waiting or running; `oldest_s`: how long the oldest has been due, 0 without one.

    `per_s`: how fast it is served, None while that is unknown; `dead`: dead letters; `workers`: how many live.
    """

    kind: WorkerKind
    depth: int
    oldest_s: float
    per_s: float | None
    dead: int
    workers: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """All checks and all mailboxes. `status` is the worst that the checks found."""

    status: Literal["ready", "degraded", "unavailable"]
    checks: list[Check]
    mailboxes: list[MailboxState]
