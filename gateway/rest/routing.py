"""Which operation a method and a path mean."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from engramq.gateway.rest.operations import OPERATIONS, Operation

_Shape = tuple[str | None, ...]  # a path's segments, None for a parameter


@dataclass(frozen=True, slots=True)
class Match:
    """The operations of a path by method, and what stands in the places of its parameters, in their order."""

    operations: Mapping[str, Operation]
    values: tuple[str, ...]

    @property
    def methods(self) -> str:
        """What an Allow header lists."""
        methods = [*self.operations, *(["HEAD"] if "GET" in self.operations else []), "OPTIONS"]
        return ", ".join(methods)


def _shape(path: str) -> _Shape:
    return tuple(None if part.startswith("{") else part for part in path.strip("/").split("/"))


def _by_shape(operations: Iterable[Operation]) -> Mapping[_Shape, Mapping[str, Operation]]:
    found: dict[_Shape, dict[str, Operation]] = {}
    for operation in operations:
        found.setdefault(_shape(operation.path), {})[operation.method] = operation
    # Words before parameters: /memories/search is no memory.
    return dict(sorted(found.items(), key=lambda one: one[0].count(None)))


_SHAPES: Final = _by_shape(OPERATIONS.values())


def match(raw_path: bytes) -> Match | None:
    """Return what a path as it was sent means, None when nothing is there.

    It is cut at its slashes before escapes are read, so that an escaped slash belongs to its segment.
    """
    given = raw_path.removeprefix(b"/").split(b"/")
    # A byte that is no UTF-8 becomes half a surrogate pair, which the check of the parameter refuses by its name.
    parts = [unquote_to_bytes(part).decode(errors="surrogateescape") for part in given]
    for shape, operations in _SHAPES.items():
        pairs = list(zip(shape, parts, strict=False))
        if len(shape) == len(parts) and all(word in (None, part) for word, part in pairs):
            values = tuple(part for word, part in pairs if word is None)
            return Match(operations, values) if all(values) else None
    return None
