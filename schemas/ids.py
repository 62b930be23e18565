"""Ids, times and bearer tokens as the contract writes them. A token itself is kept nowhere."""

import hashlib
import os
import secrets
import threading
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Final
from uuid import UUID

_RANDOM_DIGITS = 15  # decimal ones: 50 bits, in 20 tokens (o200k) an id where hexadecimal ones take 23
_COUNTER_BITS = 12
_MILLIS = (1 << 48) - 1
_DATE_CHARS = 10  # 2026-01-31
_DAY, _TICK = timedelta(days=1), timedelta(microseconds=1)

Pair = tuple[UUID, UUID]  # of memories: the lower id first


class _IdClock:
    """Milliseconds and a 12-bit counter that never go back within this process (RFC 9562, method 1)."""

    lock = threading.Lock()
    last = 0


def uuid7() -> str:
    """Return a new UUIDv7 in canonical text; ids made by one process sort in the order of their making."""
    now = time.time_ns() // 1_000_000 << _COUNTER_BITS
    with _IdClock.lock:
        _IdClock.last = tick = max(_IdClock.last + 1, now)
    millis, counter = tick >> _COUNTER_BITS, tick & (1 << _COUNTER_BITS) - 1
    random = int.from_bytes(os.urandom(8), "big") % 10**_RANDOM_DIGITS
    return str(UUID(f"{millis & _MILLIS:012x}7{counter:03x}8{random:0{_RANDOM_DIGITS}d}"))


def pair_of(first: UUID, second: UUID) -> Pair:
    """Return two ids as the pair that a link of theirs is stored under."""
    return (first, second) if first < second else (second, first)


def list_position(created_at: str, identifier: str) -> str:
    """Return the position in a list of the newest just after this item: what a cursor of such a list stands for."""
    return f"{created_at}|{identifier}"


def parse_list_position(text: str) -> tuple[datetime, UUID] | None:
    """Return the time and the id in a position that `list_position` made, None for any other text."""
    at, _, identifier = text.partition("|")
    found = parse_uuid(identifier)
    try:
        created_at = datetime.fromisoformat(at)
    except ValueError:
        return None
    return None if found is None or created_at.tzinfo is None else (created_at, found)


def weight_position(weight: float, identifier: str) -> str:
    """Return the position in a list of the heaviest just after this item."""
    return f"{weight!r}|{identifier}"


def parse_weight_position(text: str) -> tuple[float, UUID] | None:
    """Return the weight and the id in a position that `weight_position` made, None for any other text."""
    number, _, identifier = text.partition("|")
    found = parse_uuid(identifier)
    try:
        weight = float(number)
    except ValueError:
        return None
    return None if found is None else (weight, found)


_MARKS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def mark_of(identifier: str) -> str:
    """Return 4 characters that stand for an id in a cursor: 24 bits of its hash."""
    value = int.from_bytes(hashlib.blake2b(identifier.encode(), digest_size=3).digest(), "big")
    return "".join(_MARKS[value >> shift & 63] for shift in (18, 12, 6, 0))


def parse_uuid(text: str) -> UUID | None:
    """Return the UUID that `text` is in its canonical form, else None: a malformed id is an unknown id."""
    try:
        value = UUID(text)
    except ValueError:
        return None
    return value if str(value) == text.lower() else None


def parse_time(text: str, *, end_of_day: bool = False) -> datetime:
    """Return the moment that an operator wrote: RFC 3339 with a zone, or a date: its beginning (or end) in UTC.

    Raises ValueError saying what is expected.
    """
    try:
        moment = datetime.fromisoformat(text)
        if len(text) == _DATE_CHARS:
            return moment.replace(tzinfo=UTC) + (_DAY - _TICK if end_of_day else timedelta())
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{text!r} is neither a date (2026-01-31) nor a time with a zone (2026-01-31T09:00:00Z)")


def format_time(moment: datetime, minutes_east: int | None = None) -> str:
    """Return RFC 3339 with microseconds, in UTC with `Z` or so many minutes east of it."""
    if minutes_east:
        try:
            return moment.astimezone(timezone(timedelta(minutes=minutes_east))).isoformat(timespec="microseconds")
        except OverflowError:  # beyond the years 1 to 9999 there
            pass
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


TOKEN_PREFIX: Final = "engramq_"  # noqa: S105 - lets people and scanners of leaked secrets know a token as ours
TOKEN_BYTES: Final = 32  # random ones, so nothing slower than SHA-256 is needed against guessing


def new_token() -> str:
    """Return a new token: the prefix and 43 characters of base64url."""
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def token_digest(token: str) -> str:
    """Return the SHA-256 of a whole token in hexadecimal, whatever characters it has."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
