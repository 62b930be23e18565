"""JSON into PostgreSQL, and out of it as values that travel."""

import json
from decimal import Decimal
from typing import Any, Final

from psycopg.types.json import Jsonb

__all__ = ["Jsonb", "loads", "same"]

_INTEGERS: Final = range(-(2**63), 2**64)  # what msgpack has room for
_FEW_DIGITS: Final = 25  # more than those have; int() of many digits is slow


def loads(data: str | bytes | bytearray) -> Any:
    """Parse JSON. jsonb writes 1e300 with all its digits; a whole number beyond 64 bits is made a float again."""
    return json.loads(data, parse_int=_number)


def same(one: Any, other: Any) -> bool:
    """Say whether two JSON values are equal to jsonb: 1 is 1.0 but not true, and the order of keys does not matter."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return Decimal(repr(one)) == Decimal(repr(other))  # as they are written: jsonb has no binary fractions
    return bool(one == other)


def _number(text: str) -> int | float:
    if len(text) < _FEW_DIGITS:
        value = int(text)
        if value in _INTEGERS:
            return value
    return float(text)
