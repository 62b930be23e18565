"""Nodes and edges of an export, checked at the door and written to the knowledge graph by its own commands."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from engramq.deploy.importing.found import Edge, Node
from engramq.deploy.importing.records import Rejection, rejection
from engramq.deploy.importing.rows import Secrets
from engramq.deploy.importing.sending import Importer
from engramq.gateway.mcp.arguments import check_arguments
from engramq.gateway.mcp.tools import TOOLS
from engramq.gateway.redaction import Redaction
from engramq.schemas.commands import Command, EdgeAdded, NameAmbiguous, NodeAdded
from engramq.schemas.faults import EngramqError
from engramq.schemas.ids import uuid7

IN_FLIGHT: Final = 8  # one takes a few milliseconds, mostly of waiting
NODES: Final = "nodes"
EDGES: Final = "edges"
LABELS: Final = ("source", "target")  # the ends of an edge, whose label is told by the export's nodes


@dataclass
class Graph:
    """Checks what the export names, and writes it, without its secrets if they are left out.

    `labels`: of the nodes that the export has, so that edges find theirs.
    """

    secrets: Secrets
    labels: dict[str, str] = field(default_factory=dict)
    found: Counter[str] = field(default_factory=Counter)
    created: Counter[str] = field(default_factory=Counter)

    def checked(self, entry: Node | Edge) -> Command | Rejection:
        """Return the command that writes an entry, or why there is none."""
        try:
            given = self._without_secrets(entry.arguments)
        except EngramqError as refused:
            return rejection(entry.line, refused, entry.file)
        if isinstance(entry, Edge):
            ends = {f"{end}_label": self.labels.get(str(given[f"{end}_name"]), entry.label) for end in LABELS}
            given |= {name: label for name, label in ends.items() if label is not None}
        try:
            command = check_arguments(TOOLS[_tool(entry)], given).parameters
        except EngramqError as refused:
            return rejection(entry.line, refused, entry.file)
        if isinstance(entry, Node):
            self.labels[given["name"]] = entry.label
        assert isinstance(command, Command)
        return command

    def _without_secrets(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with a mark in the place of each secret: the same one in a name wherever it stands."""
        if not self.secrets.left_out:
            return dict(given)
        redaction = Redaction()
        texts = {name: redaction.of_text(value, name) for name, value in given.items() if isinstance(value, str)}
        self.secrets.found += redaction.found
        return {**given, **texts}

    async def write(self, importer: Importer, namespace: str, entries: Iterator[Node | Edge]) -> None:
        """Write every entry; raises EngramqError when one cannot be brought in, for a reason that is not its own."""
        slots = anyio.Semaphore(IN_FLIGHT)
        async with anyio.create_task_group() as group:
            while (entry := await anyio.to_thread.run_sync(next, entries, None)) is not None:
                command = self.checked(entry)
                if isinstance(command, Rejection):
                    importer.reject(command)
                    continue
                await slots.acquire()
                group.start_soon(self._write, importer, namespace, entry, command, slots)

    async def _write(
        self, importer: Importer, namespace: str, entry: Node | Edge, command: Command, slots: anyio.Semaphore
    ) -> None:
        try:
            answer = await importer.ask_until_answered(command, namespace, f"import:{uuid7()}")
        finally:
            slots.release()
        if answer.fault is not None:  # of this entry alone: it was not the service's failing
            importer.reject(Rejection(entry.line, str(answer.fault.field or "line"), answer.fault.error, entry.file))
            return
        if isinstance(answer.reply, NodeAdded | EdgeAdded):
            kind = NODES if isinstance(entry, Node) else EDGES
            self.found[kind] += 1
            self.created[kind] += answer.reply.created
            return
        several = isinstance(answer.reply, NameAmbiguous)
        why = "Several nodes have this name." if several else "The graph has it otherwise, and a change takes consent."
        importer.reject(Rejection(entry.line, "source_name" if several else "relation", why, entry.file))


def _tool(entry: Node | Edge) -> str:
    return "graph_add_node" if isinstance(entry, Node) else "graph_add_edge"
