"""The export of another system brought in: read once to the end first, so that one that is cut leaves nothing."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engramq.deploy.importing.found import Choices, Edge, Found, LeftOut, Node
from engramq.deploy.importing.graph import Graph
from engramq.deploy.importing.readers import READERS
from engramq.deploy.importing.records import Given, Rejection
from engramq.deploy.importing.rows import make_batches
from engramq.deploy.importing.sending import BATCH_CHARS, Importer, Options, importing
from engramq.schemas.packed_lines import BrokenOff, UnusableFile
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ForeignFormat


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
