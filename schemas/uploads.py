"""Import a file that somebody has uploaded, and write an export in a form: `deploy` has both, the gateway the page."""

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Protocol, TypeAlias

from engramq.schemas.exports import ExportForm, ExportFormat
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ReceiptStatus

REJECTED_SHOWN: Final = 20  # the first ones: more do not help a reader who mends a file

# Calls a tool as the one who has uploaded the file, and returns the reply, refusals included.
CallTool: TypeAlias = Callable[[str, Mapping[str, Any]], Coroutine[Any, Any, dict[str, Any]]]


class RejectedRow(NamedTuple):
    """A row that was not stored, the line on which it begins, and why; `file`: the one of an archive."""

    line: int
    field: str
    reason: str
    file: str


class GraphCount(NamedTuple):
    """How many nodes or edges came in, and how many of them are new."""

    kind: str
    entries: int
    created: int


@dataclass(frozen=True, slots=True)
class Upload:
    """A file as it was uploaded; `format`: None where the content says it. The settings name the caller's namespace."""

    path: Path
    format: str | None
    settings: Settings


@dataclass(slots=True)
class UploadReport:
    """How far an import is, and at its end what became of everything.

    `counts`: rows by what became of them; `absent`: the same of those whose memory is not to be found, with why.
    `left_out`: what a rule of the format leaves out, each kind with its number; `secrets`: how many.
    `kept_to_author`: rows that may correct what only their author sees. `kept_apart`: nobody has looked through them.
    """

    read: int = 0
    counts: Counter[ReceiptStatus] = field(default_factory=Counter)
    absent: list[tuple[str, str, int]] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)
    left_out: list[tuple[str, int]] = field(default_factory=list)
    graph: list[GraphCount] = field(default_factory=list)
    secrets: int = 0
    kept_to_author: int = 0
    kept_apart: bool = False
    waits_for_vectors: bool = False
    is_late: bool = False


class ImportUpload(Protocol):
    """Imports a file, and keeps the report up to date meanwhile; raises EngramqError for what it cannot go on after."""

    async def __call__(self, upload: Upload, call: CallTool, report: UploadReport) -> None:
        """Import the file."""
        ...


@dataclass(frozen=True, slots=True)
class PageFiles:
    """The page's ways to import and export files; `form_into` writes an export in another program's form as a file."""

    import_upload: ImportUpload
    form_into: Callable[[ExportFormat, IO[bytes]], ExportForm]
