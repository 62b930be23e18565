"""W3C trace context: the one header that says which trace a call belongs to."""

import random
import re
from typing import Final

_FORM: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def trace_id_of(traceparent: str | None) -> str:
    """Return the id of the trace, nothing where the header names none."""
    found = None if traceparent is None else _FORM.fullmatch(traceparent)
    return "" if found is None else found[1]


def new_traceparent() -> str:
    """Return the header of a new trace that nobody records: its id joins the log lines of one call."""
    # Nobody must be kept from guessing it. OpenTelemetry draws its ids so too: without a system call.
    trace_id, span_id = random.getrandbits(128) or 1, random.getrandbits(64) or 1
    return f"00-{trace_id:032x}-{span_id:016x}-00"
