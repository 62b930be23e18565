"""Items of a LangGraph store as memories: how they are written and read back, and which of them a filter means."""

import hashlib
import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from langgraph.store.base import MatchCondition, PutOp, SearchItem, get_text_at_path, tokenize_path

from engramq.schemas.records import Memory

TAG: Final = "langgraph"  # of every item; the two below say of which namespace and key
METADATA: Final = "langgraph"
CONTENT_CHARS: Final = 32_768  # of a memory; an item's value stands whole in the metadata
_DIGEST_BYTES: Final = 16
_WHOLE: Final = "$"  # the path of a value as a whole

Namespace = tuple[str, ...]


def item_tag(namespace: Namespace, key: str) -> str:
    """Return the tag of the memories that are, or were, this item."""
    return f"{TAG}:item:{_digest([*namespace, key])}"


def within_tags(namespace: Namespace) -> list[str]:
    """Return the tags by which all below a namespace is found."""
    return [TAG, f"{TAG}:in:{_digest(namespace)}"] if namespace else [TAG]


def tags_of(namespace: Namespace, key: str) -> list[str]:
    """Return the tags of an item: its own, and one for each namespace that it is below."""
    above = {tag: None for depth in range(1, len(namespace) + 1) for tag in within_tags(namespace[:depth])}
    return [*above, item_tag(namespace, key)]


def fields_of(op: PutOp, created_at: str | None, fields: Sequence[str]) -> dict[str, Any]:
    """Return what a memory says that an item becomes; `created_at`: of the item that it replaces."""
    now = datetime.now(UTC)
    about = {
        "namespace": list(op.namespace),
        "key": op.key,
        "value": dict(op.value or {}),
        "created_at": created_at or now.isoformat(),
        "ttl": op.ttl,
    }
    said: dict[str, Any] = {
        "content": _text(op, fields)[:CONTENT_CHARS],
        "tags": tags_of(op.namespace, op.key),
        "metadata": {METADATA: about},
    }
    return said | ({} if op.ttl is None else {"expires_at": expiry(op.ttl)})


def expiry(ttl: float) -> str:
    """Return when an item ends that is to live so many minutes from now."""
    return (datetime.now(UTC) + timedelta(minutes=ttl)).isoformat()


def item_of(memory: Memory, score: float | None = None) -> SearchItem | None:
    """Return the item that a memory is; None for one that others have made to look like one."""
    about = about_of(memory)
    namespace, key = tuple(about.get("namespace") or ()), about.get("key")
    if not isinstance(key, str) or item_tag(namespace, key) not in (memory.tags or ()):
        return None
    return SearchItem(
        namespace=namespace,
        key=key,
        value=about["value"],
        created_at=datetime.fromisoformat(about["created_at"]),
        updated_at=datetime.fromisoformat(memory.created_at),
        score=score,
    )


def about_of(memory: Memory) -> Mapping[str, Any]:
    """Return what a memory says of the item that it is."""
    about = (memory.metadata or {}).get(METADATA)
    return about if isinstance(about, dict) else {}


def _text(op: PutOp, fields: Sequence[str]) -> str:
    """Return what an item is found by: the texts at the paths of its index, else its key."""
    index: Sequence[str] | Literal[False] = fields if op.index is None else op.index
    texts = [text for path in index or () for text in _at(op.value or {}, path)]
    return "\n".join(texts).strip() or op.key or TAG


def _at(value: Mapping[str, Any], path: str) -> Iterator[str]:
    if path == _WHOLE:
        yield from (f"{name}: {part if isinstance(part, str) else json.dumps(part)}" for name, part in value.items())
    else:
        yield from get_text_at_path(value, tokenize_path(path))


def _digest(words: Sequence[str]) -> str:
    return hashlib.blake2b(json.dumps(list(words)).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _compare_where_ordered(compared: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison of numbers by their size, and of other texts (dates in ISO 8601) by their letters.

    What cannot be compared, such as a text with a number or null, is no match, as in LangGraph's stores on disk.
    """

    def holds(value: Any, wanted: Any) -> bool:
        numbers = _number(value), _number(wanted)
        if None not in numbers:
            return compared(*numbers)
        return isinstance(value, str) and isinstance(wanted, str) and compared(value, wanted)

    return holds


def _number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None


_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": _compare_where_ordered(operator.gt),
    "$gte": _compare_where_ordered(operator.ge),
    "$lt": _compare_where_ordered(operator.lt),
    "$lte": _compare_where_ordered(operator.le),
}


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Say whether an item's value is what a filter asks for; raises ValueError for an operator that is none."""
    return all(_is(value.get(name), sought) for name, sought in (wanted or {}).items())


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and any(name.startswith("$") for name in wanted):
        for name in wanted:
            if name not in _OPERATORS:
                raise ValueError(f"There is no operator {name}; there are {', '.join(_OPERATORS)}.")
        return all(_OPERATORS[name](value, operand) for name, operand in wanted.items())
    if isinstance(wanted, dict):
        return isinstance(value, dict) and matches(value, wanted)
    if isinstance(wanted, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same and all(_is(element, sought) for element, sought in zip(value, wanted, strict=True))
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
