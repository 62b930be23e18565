"""What no text, number or JSON object may hold, since the store or the wire could not keep it."""

import math
import re
from typing import Any, Final

import msgspec

from engramq.schemas import limits

_UNKEEPABLE: Final = re.compile("[\0\ud800-\udfff]")
_INTEGERS: Final = range(-(2**63), 2**64)  # what msgpack has room for


def text_problem(text: str) -> str | None:
    """Say what is wrong with a text that PostgreSQL or UTF-8 cannot hold, or None."""
    if _UNKEEPABLE.search(text) is None:
        return None
    return "holds a NUL character or half of a surrogate pair, which cannot be kept"


def json_problem(value: Any, levels: int = limits.METADATA_DEPTH) -> str | None:
    """Say what is wrong with a JSON value: nested more than `levels` deep or holding what cannot be kept, or None."""
    if isinstance(value, str):
        return text_problem(value)
    if isinstance(value, dict):
        parts: list[Any] = [part for item in value.items() for part in item]
    elif isinstance(value, list):
        parts = value
    else:
        return _number_problem(value)
    if levels == 0:
        return f"is nested more than {limits.METADATA_DEPTH} levels deep"
    return next((problem for part in parts if (problem := json_problem(part, levels - 1))), None)


def size_problem(value: Any) -> str | None:
    """Say that a keepable JSON value is too large, or None."""
    if len(msgspec.json.encode(value)) <= limits.METADATA_BYTES:
        return None
    return f"is larger than {limits.METADATA_BYTES} bytes of JSON"


def _number_problem(value: Any) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return "holds NaN or an infinity"
    if isinstance(value, int) and value not in _INTEGERS:
        return "holds a whole number beyond 64 bits"
    return None


def shown(value: Any) -> str:
    """Return a short, printable form of a value for an error text: never long, never a raw control character."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if abs(value) < 10**18 else "a huge number"
    text = ascii(value) if isinstance(value, str | float) else "a list" if isinstance(value, list) else "an object"
    return text if len(text) <= 60 else f"{text[:57]}..."
