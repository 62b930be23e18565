"""Check bearer tokens of our own: the workers resolve them by digest, and the answer is cached for a moment."""

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.limits import Shared
from engramq.gateway.queue.bus import Bus
from engramq.schemas.commands import Authenticate, Identity
from engramq.schemas.envelope import Answer, Principal
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.ids import TOKEN_PREFIX, token_digest
from engramq.schemas.vocabulary import ALL_SCOPES, SYSTEM_NAMESPACE, SYSTEM_PRINCIPAL

FRESH_S: Final = 30.0  # how long a token is believed after it was asked about, so after it was revoked at most
UNKNOWN_S: Final = 5.0  # how long an unknown one stays unknown
KEPT: Final = 10_000  # tokens of either kind that are remembered
LOOKUPS: Final = 256  # that may be under way at once
LOOKUP_S: Final = 5.0

_FORM: Final = re.compile(re.escape(TOKEN_PREFIX) + "[A-Za-z0-9_-]{43}")
T = TypeVar("T")

_PRINCIPAL: Final = Principal(name=SYSTEM_PRINCIPAL, scopes=ALL_SCOPES)


@dataclass(frozen=True, slots=True)
class _KnownToken:
    """The caller of a token, as the workers last answered."""

    caller: Caller
    fresh_until: float  # by the monotonic clock
    expires_at: float | None  # seconds since the epoch


class TokenAuthenticator:
    """Returns the caller of a token. Good and unknown tokens are cached apart, so that guesses evict no good token."""

    def __init__(
        self, bus: Bus, clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._now = now
        self._known: OrderedDict[str, _KnownToken] = OrderedDict()
        self._unknown: OrderedDict[str, float] = OrderedDict()
        self._lookups: Shared[_KnownToken | None] = Shared(LOOKUPS)

    async def caller_of(self, token: str, admit: Callable[[], None]) -> Caller | None:
        """Return the caller of the token, None for one that is unknown, revoked or expired.

        `admit` is called before workers are asked about a token that was never good; it may raise. Raises EngramqError
        with `unavailable` or `overloaded` when the workers did not answer.
        """
        if _FORM.fullmatch(token) is None:
            return None
        digest = token_digest(token)
        known = self._known.get(digest)
        if known is None:
            if self._clock() < self._unknown.get(digest, 0.0):
                return None
            admit()
        if known is None or self._clock() >= known.fresh_until:
            known = await self._lookups.run(digest, lambda: self._look_up(digest))
        if known is None or (known.expires_at is not None and self._now() >= known.expires_at):
            return None
        if digest in self._known:
            self._known.move_to_end(digest)
        return known.caller

    async def _look_up(self, digest: str) -> _KnownToken | None:
        asked = self._clock()  # a token that is revoked from now on may still be answered for
        identity = await self._ask(digest)
        if identity.status != "success":
            self._known.pop(digest, None)
            _remember(self._unknown, digest, asked + UNKNOWN_S)
            return None
        principal = Principal(
            name=identity.principal,
            scopes=identity.scopes,
            untrusted=identity.untrusted,
            visibility=identity.visibility,
        )
        caller = Caller(identity.namespace, principal, project=identity.project)
        known = _KnownToken(caller, asked + FRESH_S, identity.expires_at)
        _remember(self._known, digest, known)
        return known

    async def _ask(self, digest: str) -> Identity:
        command = Authenticate(token_sha256=digest)
        answer = await self._bus.ask(command, namespace=SYSTEM_NAMESPACE, principal=_PRINCIPAL, timeout_s=LOOKUP_S)
        if not isinstance(answer, Answer):
            raise refuse(FaultCode.UNAVAILABLE, "No worker answered in time.")
        if answer.fault is not None:
            raise EngramqError(answer.fault)
        if not isinstance(answer.reply, Identity):
            raise TypeError(f"asked whose a token is, got {type(answer.reply).__name__}")
        return answer.reply


def _remember(kept: OrderedDict[str, T], digest: str, value: T) -> None:
    kept[digest] = value
    kept.move_to_end(digest)
    if len(kept) > KEPT:
        kept.popitem(last=False)
