"""`engramq import --dry-run`: what is in a file, and what would be rejected; no server is asked, nothing is written."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engramq.deploy.importing.found import Edge, Found, LeftOut, Node
from engramq.deploy.importing.graph import EDGES, NODES, Graph
from engramq.deploy.importing.records import Given, Rejection
from engramq.deploy.importing.rejects import RejectFile
from engramq.deploy.importing.rows import Row
from engramq.deploy.importing.sending import Options, new_secrets
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ReceiptStatus

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
