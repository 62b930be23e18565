"""What a reader finds in an export of another system, and what it may be told."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from engramq.deploy.importing.records import Given, Rejection


@dataclass(frozen=True, slots=True)
class Node:
    """A thing that the export names, which becomes a node of the knowledge graph; where it stands."""

    name: Any
    label: Any
    line: int
    file: str = ""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What graph_add_node takes."""
        return {"name": self.name, "label": self.label}


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation between two things by their names, which becomes an edge of the knowledge graph; where it stands.

    `label`: of an end that the export has no node for; None leaves it to the graph.
    """

    source: Any
    target: Any
    relation: Any
    line: int
    file: str = ""
    label: str | None = None

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What graph_add_edge takes."""
        return {"source_name": self.source, "target_name": self.target, "relation": self.relation}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is not brought in, by a rule of its format: `what`, in the plural, and `one` of it."""

    what: str
    one: str


Found: TypeAlias = Given | Rejection | Node | Edge | LeftOut


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user chose for conversations: to have the other messages too, and to trust what was said."""

    all_messages: bool = False
    trusted: bool = False


# Reads a file or folder from its beginning, each time that it is called. Raises UnusableFile, also midway.
Reader: TypeAlias = Callable[[Path, Choices], Iterator[Found]]
