"""Bring another system's export in, or try it out: memories, then nodes, then edges of the knowledge graph.

Which system it is of, the content says where that leaves no doubt. An export is read once to its end first, so that one
that is cut off leaves nothing."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import anyio

from engramq.deploy.cli.tool_client import is_refused
from engramq.deploy.importing.exports import Entry, ExportedEdge, ExportedNode, GraphEntry, LeftOut
from engramq.deploy.importing.fields import Choices
from engramq.deploy.importing.formats import FORMATS, ForeignReader
from engramq.deploy.importing.records import Rejection, UncheckedRow, rejection
from engramq.deploy.importing.rows import TURNED, CheckedRow, Secrets, make_batches
from engramq.deploy.importing.sending import BATCH_CHARS, Importer, OpenImporter, Options, RejectFile, new_secrets
from engramq.gateway.mcp.arguments import check_arguments
from engramq.gateway.redaction import Redaction
from engramq.schemas.commands import TOOLS, Command
from engramq.schemas.faults import EngramqError
from engramq.schemas.fields import TURNING
from engramq.schemas.ids import uuid7
from engramq.schemas.packed_lines import BrokenOff, UnusableFile
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ForeignFormat, ReceiptStatus, Status

IN_FLIGHT: Final = 8  # one takes a few milliseconds, mostly of waiting
NODES: Final = "nodes"
EDGES: Final = "edges"
_NAMES: Final = ("name", "label", "source", "target", "relation")
LABELS: Final = ("source", "target")  # the ends of an edge, whose labels the export's nodes have


@dataclass
class ForeignGraph:
    """Checks what the export names, and writes it, without its secrets if they are left out.

    `labels`: of the nodes that the export has, so that edges find theirs.
    """

    secrets: Secrets
    labels: dict[str, str] = field(default_factory=dict)
    found: Counter[str] = field(default_factory=Counter)
    created: Counter[str] = field(default_factory=Counter)
    node_ids: set[str] = field(default_factory=set)
    end_ids: set[str] = field(default_factory=set)

    @property
    def only_ends(self) -> int:
        """How many nodes there are because an edge names them, and the export has none of its own for them."""
        return len(self.end_ids - self.node_ids)

    def command_for(self, entry: GraphEntry) -> Command | Rejection:
        """Return the command that writes an entry, or why there is none."""
        try:
            given = self._without_secrets(entry)
        except EngramqError as refused:
            return rejection(entry.line, refused, entry.file)
        if isinstance(entry, ExportedEdge):
            ends = {f"{end}_label": self.labels.get(str(given[f"{end}_name"]), entry.label) for end in LABELS}
            given |= {name: label for name, label in ends.items() if label is not None}
        try:
            tool = TOOLS["graph_add_node" if isinstance(entry, ExportedNode) else "graph_add_edge"]
            command = check_arguments(tool, given).parameters
        except EngramqError as refused:
            return rejection(entry.line, refused, entry.file)
        if isinstance(entry, ExportedNode):
            self.labels[given["name"]] = entry.label
        assert isinstance(command, Command)
        return command

    def _without_secrets(self, entry: GraphEntry) -> dict[str, Any]:
        """Return arguments with a mark in the place of each secret: the same one in a name wherever it stands."""
        given: dict[str, Any]
        if isinstance(entry, ExportedNode):
            given = {"name": entry.name, "label": entry.label}
        else:
            given = {"source_name": entry.source, "target_name": entry.target, "relation": entry.relation}
        if not self.secrets.left_out:
            return given
        redaction = Redaction()
        texts = {name: redaction.of_text(value) for name, value in given.items() if isinstance(value, str)}
        self.secrets.found += redaction.count
        return {**given, **texts}

    async def write(self, importer: Importer, namespace: str, entries: Iterator[GraphEntry]) -> None:
        """Write every entry; raises EngramqError when one cannot be brought in, for a reason that is not its own."""
        slots = anyio.Semaphore(IN_FLIGHT)
        async with anyio.create_task_group() as group:
            while (entry := await anyio.to_thread.run_sync(next, entries, None)) is not None:
                command = self.command_for(entry)
                if isinstance(command, Rejection):
                    importer.reject(command)
                    continue
                await slots.acquire()
                group.start_soon(self._write, importer, namespace, entry, command, slots)

    async def _write(
        self, importer: Importer, namespace: str, entry: GraphEntry, command: Command, slots: anyio.Semaphore
    ) -> None:
        try:
            reply = await importer.send(command, namespace, f"import:{uuid7()}")
        finally:
            slots.release()
        if is_refused(reply):  # of this entry alone: it was not the service's failing
            importer.reject(Rejection(entry.line, str(reply.get("field") or "line"), reply["error"], entry.file))
            return
        if reply["status"] == Status.SUCCESS:
            kind = NODES if isinstance(entry, ExportedNode) else EDGES
            self.found[kind] += 1
            self.created[kind] += reply["created"]
            if kind is NODES:
                self.node_ids.add(reply["node_id"])
            else:
                self.end_ids |= {reply["source_id"], reply["target_id"]}
            return
        several = reply["status"] == "ambiguous"
        why = "Several nodes have this name." if several else "The graph has it otherwise, and a change takes consent."
        importer.reject(Rejection(entry.line, "source_name" if several else "relation", why, entry.file))


@dataclass(frozen=True, slots=True)
class Export:
    """A file or folder of another system, and what the user chose; it can be read again and again."""

    path: Path
    format: ForeignFormat
    choices: Choices

    @property
    def reader(self) -> ForeignReader:
        """How its format is read."""
        return FORMATS[self.format]

    def entries(self) -> Iterator[Entry]:
        """Yield what is in it; raises UnusableFile, also midway."""
        try:
            for entry in self.reader.read(self.path, self.choices):
                yield from _without_turning(entry) if isinstance(entry, GraphEntry) else [entry]
        except BrokenOff as problem:
            raise UnusableFile(str(problem)) from None
        except OSError as problem:
            raise UnusableFile(f"{self.path} cannot be read: {problem.strerror or problem}.") from None

    def entries_again(self) -> Iterator[Entry]:
        """Yield the same once some of it may be in; raises ChangedMeanwhile."""
        try:
            yield from self.entries()
        except UnusableFile as problem:
            raise ChangedMeanwhile(f"{self.path} has changed while it was read. {problem}") from None


def _without_turning(entry: GraphEntry) -> Iterator[Entry]:
    """Yield an entry of the graph without marks in its names that turn text around, and each of these as left out."""
    kept: dict[str, Any] = {}
    for name in _NAMES:
        if isinstance(text := getattr(entry, name, None), str):
            kept[name], count = TURNING.subn("", text)
            yield from [TURNED] * count
    yield replace(entry, **kept)


class ChangedMeanwhile(Exception):
    """Somebody has written the export between two readings of it, so that it cannot be read to its end any more."""


@dataclass
class ImportedExport:
    """The result of an import: `left_out` by the rules of its format, each with its number."""

    importer: Importer
    graph: ForeignGraph
    left_out: Counter[LeftOut]


@dataclass
class _EntryCounts:
    """The counts of a first reading; as a source it says how many memories are done, for the bar.

    `originals`: the memories whose notes are as they went out, or were read.
    """

    kinds: Counter[type[Entry]] = field(default_factory=Counter)
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    originals: set[str] = field(default_factory=set)
    position: int = 0

    def count(self, found: Iterator[Entry]) -> None:
        """Count everything; raises UnusableFile for what could not be read to its end."""
        for entry in found:
            self.kinds[type(entry)] += 1
            if isinstance(entry, LeftOut):
                self.left_out[entry] += 1
            elif isinstance(entry, UncheckedRow) and entry.original is not None and not entry.original.edited:
                self.originals.add(entry.original.memory_id)

    def counting(self, records: Iterator[UncheckedRow | Rejection]) -> Iterator[UncheckedRow | Rejection]:
        """Yield the records, moving on. A note that was copied, then edited, is a note of its own."""
        for self.position, record in enumerate(records, 1):
            if isinstance(record, UncheckedRow) and record.original is not None and record.original.edited:
                if record.original.memory_id in self.originals:
                    record.values.pop("external_id", None)
                    yield replace(record, original=None)
                    continue
                self.originals.add(record.original.memory_id)
            yield record


async def import_foreign(
    export: Export, settings: Settings, options: Options, open_importer: OpenImporter
) -> ImportedExport:
    """Import memories, then nodes, then edges of an export.

    Raises EngramqError, NoWorker, CannotReject, ChangedMeanwhile, and UnusableFile before anything is written, maybe in
    a group.
    """
    read = _EntryCounts()
    await anyio.to_thread.run_sync(read.count, export.entries())
    memories = read.kinds[UncheckedRow] + read.kinds[Rejection]
    namespace = options.namespace or settings.namespace
    async with open_importer(read, memories or None) as importer:
        graph = ForeignGraph(importer.secrets)
        records = read.counting(
            entry for entry in export.entries_again() if isinstance(entry, UncheckedRow | Rejection)
        )
        rows = options.checked(records, settings, importer.secrets, foreign=True)
        await importer.run(make_batches(rows, options.batch_size, BATCH_CHARS))
        for kind in (ExportedNode, ExportedEdge):
            if read.kinds[kind]:
                await graph.write(
                    importer, namespace, (entry for entry in export.entries_again() if isinstance(entry, kind))
                )
    return ImportedExport(importer, graph, read.left_out)


SAMPLES: Final = 3
MEMORIES: Final = "memories"
REJECTED: Final = str(ReceiptStatus.REJECTED)


@dataclass
class DryRun:
    """The result that an import would have, its first rows, and how many secrets would be left out."""

    counts: Counter[str] = field(default_factory=Counter)
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    samples: list[CheckedRow] = field(default_factory=list)
    secrets: int = 0


def look_through(
    entries: Iterator[Entry], settings: Settings, options: Options, rejects: Path | None, *, foreign: bool
) -> DryRun:
    """Check everything as an import does, and list what it would reject; `foreign`: another program has written it.

    Raises UnusableFile, CannotReject.
    """
    looked, secrets = DryRun(), new_secrets(settings)
    graph = ForeignGraph(secrets)
    with ExitStack() as files:
        telling = RejectFile(rejects, files)

        def reject(rejection: Rejection) -> None:
            looked.counts[REJECTED] += 1
            telling.write(rejection)

        def records() -> Iterator[UncheckedRow | Rejection]:
            for entry in entries:
                if isinstance(entry, LeftOut):
                    looked.left_out[entry] += 1
                elif isinstance(entry, GraphEntry):
                    command = graph.command_for(entry)
                    if isinstance(command, Rejection):
                        reject(command)
                    else:
                        looked.counts[NODES if isinstance(entry, ExportedNode) else EDGES] += 1
                else:
                    yield entry

        for row in options.checked(records(), settings, secrets, foreign=foreign):
            if isinstance(row, LeftOut):
                looked.left_out[row] += 1
                continue
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
