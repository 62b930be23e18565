"""JSON into PostgreSQL, and out of it as values that travel."""

import json
from typing import Any, Final

from psycopg.types.json import Jsonb

__all__ = ["Jsonb", "loads"]

_INTEGERS: Final = range(-(2**63), 2**64)  # what msgpack has room for
_FEW_DIGITS: Final = 25  # more than those have; int() of many digits is slow


def loads(data: str | bytes | bytearray) -> Any:
    """Parse JSON. jsonb writes 1e300 with all its digits; a whole number beyond 64 bits is made a float again."""
    return json.loads(data, parse_int=_number)


def _number(text: str) -> int | float:
    if len(text) < _FEW_DIGITS:
        value = int(text)
        if value in _INTEGERS:
            return value
    return float(text)
