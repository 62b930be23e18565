"""Which items a filter means, and which namespaces a condition, as LangGraph's own stores understand them."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from langgraph.store.base import MatchCondition


def _number(compared: Callable[[float, float], bool]) -> Callable[[Any, Any], bool]:
    def holds(value: Any, wanted: Any) -> bool:
        return value is not None and compared(float(value), float(wanted))

    return holds


_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": _number(operator.gt),
    "$gte": _number(operator.ge),
    "$lt": _number(operator.lt),
    "$lte": _number(operator.le),
}


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Say whether an item's value is what a filter asks for; raises ValueError for an operator that is none."""
    return all(_is(value.get(name), one) for name, one in (wanted or {}).items())


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and any(name.startswith("$") for name in wanted):
        for name in wanted:
            if name not in _OPERATORS:
                raise ValueError(f"There is no operator {name}; there are {', '.join(_OPERATORS)}.")
        return all(_OPERATORS[name](value, one) for name, one in wanted.items())
    if isinstance(wanted, dict):
        return isinstance(value, dict) and matches(value, wanted)
    if isinstance(wanted, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same and all(_is(one, other) for one, other in zip(value, wanted, strict=True))
    return bool(value == wanted)


def is_meant(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    """Say whether a namespace begins, or ends, as a condition says; `*` stands for any one label."""
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    if condition.match_type == "prefix":
        compared = namespace[: len(path)]
    elif condition.match_type == "suffix":
        compared = namespace[len(namespace) - len(path) :]
    else:
        raise ValueError(f"There is no way {condition.match_type!r} of matching.")
    return all(wanted in ("*", label) for wanted, label in zip(path, compared, strict=True))
