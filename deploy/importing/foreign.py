"""Bring another system's export in, or try it out: memories, then nodes, then edges of the knowledge graph.

An export is read once to its end first, so that one that is cut off leaves nothing."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import anyio

from engramq.deploy.importing.detecting import READERS
from engramq.deploy.importing.exports import Choices, Edge, Found, LeftOut, Node
from engramq.deploy.importing.records import Given, Rejection, rejection
from engramq.deploy.importing.rows import Row, Secrets, make_batches
from engramq.deploy.importing.sending import BATCH_CHARS, Importer, Options, RejectFile, importing, new_secrets
from engramq.gateway.mcp.arguments import check_arguments
from engramq.gateway.redaction import Redaction
from engramq.schemas.commands import TOOLS, Command, EdgeAdded, NameAmbiguous, NodeAdded
from engramq.schemas.faults import EngramqError
from engramq.schemas.ids import uuid7
from engramq.schemas.packed_lines import BrokenOff, UnusableFile
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ForeignFormat, ReceiptStatus

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
        texts = {name: redaction.of_text(value) for name, value in given.items() if isinstance(value, str)}
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
            answer = await replace(importer.asker, namespace=namespace).insist(command, f"import:{uuid7()}")
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


@dataclass(frozen=True, slots=True)
class Export:
    """A file or folder of another system, and what the user chose; it can be read again and again."""

    path: Path
    format: ForeignFormat
    choices: Choices

    def found(self) -> Iterator[Found]:
        """Yield what is in it; raises UnusableFile, also midway."""
        try:
            yield from READERS[self.format](self.path, self.choices)
        except BrokenOff as problem:
            raise UnusableFile(str(problem)) from None
        except OSError as problem:
            raise UnusableFile(f"{self.path} cannot be read: {problem.strerror or problem}.") from None


@dataclass
class BroughtIn:
    """What became of an export: `left_out` by the rules of its format, each with its number."""

    importer: Importer
    graph: Graph
    left_out: Counter[LeftOut]


@dataclass
class _Read:
    """What a first reading has counted; as a source it says how many memories are done, for the bar."""

    memories: int = 0
    nodes: int = 0
    edges: int = 0
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    position: int = 0

    def of(self, found: Iterator[Found]) -> "_Read":
        """Count everything; raises UnusableFile for what could not be read to its end."""
        for one in found:
            match one:
                case Given() | Rejection():
                    self.memories += 1
                case Node():
                    self.nodes += 1
                case Edge():
                    self.edges += 1
                case LeftOut():
                    self.left_out[one] += 1
        return self

    def counting(self, records: Iterator[Given | Rejection]) -> Iterator[Given | Rejection]:
        """Yield the records, moving on."""
        for self.position, record in enumerate(records, 1):
            yield record


async def import_foreign(export: Export, settings: Settings, options: Options, rejects: Path | None) -> BroughtIn:
    """Import memories, then nodes, then edges of an export.

    Raises EngramqError, NoWorker, CannotReject, and UnusableFile before anything is written, maybe in a group.
    """
    read = _Read().of(export.found())
    namespace = options.namespace or settings.namespace
    async with importing(settings, options, rejects, read, read.memories or None) as importer:
        graph = Graph(importer.secrets)
        records = read.counting(one for one in export.found() if isinstance(one, Given | Rejection))
        rows = options.checked(records, settings, importer.secrets)
        await importer.run(make_batches(rows, options.batch_size, BATCH_CHARS))
        for kind, count in ((Node, read.nodes), (Edge, read.edges)):
            if count:
                await graph.write(importer, namespace, (one for one in export.found() if isinstance(one, kind)))
    return BroughtIn(importer, graph, read.left_out)


SAMPLES: Final = 3
MEMORIES: Final = "memories"
REJECTED: Final = str(ReceiptStatus.REJECTED)


@dataclass
class Looked:
    """What an import would bring in, the first rows of it, and how many secrets would be left out."""

    counts: Counter[str] = field(default_factory=Counter)
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    samples: list[Row] = field(default_factory=list)
    secrets: int = 0


def look_through(found: Iterator[Found], settings: Settings, options: Options, rejects: Path | None) -> Looked:
    """Check everything as an import does, and tell of what it would reject.

    Raises UnusableFile, CannotReject.
    """
    looked, secrets = Looked(), new_secrets(settings)
    graph = Graph(secrets)
    with ExitStack() as files:
        telling = RejectFile(rejects, files)

        def reject(rejection: Rejection) -> None:
            looked.counts[REJECTED] += 1
            telling.write(rejection)

        def records() -> Iterator[Given | Rejection]:
            for one in found:
                if isinstance(one, LeftOut):
                    looked.left_out[one] += 1
                elif isinstance(one, Node | Edge):
                    command = graph.checked(one)
                    if isinstance(command, Rejection):
                        reject(command)
                    else:
                        looked.counts[NODES if isinstance(one, Node) else EDGES] += 1
                else:
                    yield one

        for row in options.checked(records(), settings, secrets):
            if isinstance(row, Rejection):
                reject(row)
                continue
            looked.counts[MEMORIES] += 1
            if len(looked.samples) < SAMPLES:
                looked.samples.append(row)
        if rejects is not None:
            telling.close()
    looked.secrets = secrets.found
    return looked
