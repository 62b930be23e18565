"""Write JSON values to PostgreSQL, read them back and compare them as jsonb does."""

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


def same(left: Any, right: Any) -> bool:
    """Say whether two JSON values are equal to jsonb: 1 is 1.0 but not true, and the order of keys does not matter."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return Decimal(repr(left)) == Decimal(repr(right))  # as they are written: jsonb has no binary fractions
    return bool(left == right)


def _number(text: str) -> int | float:
    if len(text) < _FEW_DIGITS:
        value = int(text)
        if value in _INTEGERS:
            return value
    return float(text)
