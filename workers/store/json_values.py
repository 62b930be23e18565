"""JSON out of PostgreSQL, as values that travel."""

import json
from typing import Any, Final

_INTEGERS: Final = range(-(2**63), 2**64)  # what msgpack has room for


def loads(data: str | bytes | bytearray) -> Any:
    """Parse JSON. jsonb writes 1e300 with all its digits; a whole number beyond 64 bits is made a float again."""
    return json.loads(data, parse_int=_number)


def _number(text: str) -> int | float:
    value = int(text) if len(text) < 25 else None
    return value if value in _INTEGERS and value is not None else float(text)
