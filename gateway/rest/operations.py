"""Which tool a method and a path of REST mean."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from engramq.schemas.commands import TOOLS, Tool

MISSING: Final = frozenset({"not_found", "unknown"})  # statuses that HTTP says as 404

_Shape = tuple[str | None, ...]  # a path's segments, None for a parameter


@dataclass(frozen=True, slots=True)
class Match:
    """The tools of a path by method, and what stands in the places of its parameters, in their order."""

    tools: Mapping[str, Tool]
    values: tuple[str, ...]

    @property
    def methods(self) -> str:
        """What an Allow header lists."""
        methods = [*self.tools, *(["HEAD"] if "GET" in self.tools else []), "OPTIONS"]
        return ", ".join(methods)


def _shape(path: str) -> _Shape:
    return tuple(None if part.startswith("{") else part for part in path.strip("/").split("/"))


def _by_shape(tools: Iterable[Tool]) -> Mapping[_Shape, Mapping[str, Tool]]:
    by_shape: dict[_Shape, dict[str, Tool]] = {}
    for tool in tools:
        by_shape.setdefault(_shape(tool.path), {})[tool.method] = tool
    # Words before parameters: /memories/search is no memory.
    return dict(sorted(by_shape.items(), key=lambda item: item[0].count(None)))


_SHAPES: Final = _by_shape(TOOLS.values())


def match(raw_path: bytes) -> Match | None:
    """Return what a path as it was sent means, None when nothing is there.

    It is cut at its slashes before escapes are read, so that an escaped slash belongs to its segment.
    """
    given = raw_path.removeprefix(b"/").split(b"/")
    # A byte that is no UTF-8 becomes half a surrogate pair, which the check of the parameter refuses by its name.
    parts = [unquote_to_bytes(part).decode(errors="surrogateescape") for part in given]
    for shape, tools in _SHAPES.items():
        pairs = list(zip(shape, parts, strict=False))
        if len(shape) == len(parts) and all(word in (None, part) for word, part in pairs):
            values = tuple(part for word, part in pairs if word is None)
            return Match(tools, values) if all(values) else None
    return None
