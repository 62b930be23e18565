"""The Retry-After header of HTTP (RFC 9110, 10.2.3). Knows its two forms; refuses to know who waits."""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def seconds_to_wait(value: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds from `now` that the header asks for, never negative; None where it says nothing readable."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _until(value, now or datetime.now(UTC))
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _until(value: str, now: datetime) -> float:
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return math.nan
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()
