"""Bring past sessions of coding agents in: each turn once, apart, in the project of the folder that it was said in."""

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engramq.deploy.importing.exports import LeftOut
from engramq.deploy.importing.records import FILE, Rejection, UncheckedRow
from engramq.deploy.importing.rows import Secrets, make_batches
from engramq.deploy.importing.sending import BATCH_CHARS, Importer, Options, importing
from engramq.deploy.importing.transcript_files import SUBAGENTS, StoredSession, unreadable
from engramq.deploy.importing.transcripts import READERS, SessionEntry
from engramq.deploy.local.home import Home
from engramq.deploy.local.hooks.capture import records_of
from engramq.deploy.local.hooks.projects import KnownProject, known_projects, project_named, project_of
from engramq.deploy.local.hooks.turns import SessionFacts, Spoken
from engramq.schemas.packed_lines import UnusableFile
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ReceiptStatus, TranscriptFormat

# Errors that end one session and no other: it cannot be read, or holds what its client never writes.
UNUSABLE: Final = (OSError, UnusableFile, ValueError, TypeError, OverflowError)
NO_FOLDER: Final = LeftOut("sessions name no folder", "session names no folder")
_OF_WINDOWS: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\")  # how a path begins on a disk that was brought from there
SILENT: Final = LeftOut("sessions without a turn that is understood", "session without a turn that is understood")


@dataclass(slots=True)
class Projects:
    """The projects of the folders that sessions were held in, as hooks know them.

    A folder that is gone tells nothing but its name: `gone` has such folders. `set_for_all` is ENGRAMQ_PROJECT. With
    `note` a project that is new is noted in the home, so that its name stays its own.
    """

    home: Home
    namespace: str
    set_for_all: str = ""
    note: bool = True
    gone: set[str] = field(default_factory=set)
    _names: dict[str, str] = field(default_factory=dict)
    _registry: dict[str, KnownProject] | None = None

    def of(self, folder: str) -> str:
        """Return the name of a folder's project, "" where there is none. Raises DeployError."""
        if self.set_for_all or not folder:
            return self.set_for_all
        if folder not in self._names:
            self._names[folder] = self._looked_up(folder)
        return self._names[folder]

    def _looked_up(self, folder: str) -> str:
        is_there = os.path.isdir(folder)  # noqa: PTH112 - False where nobody may look
        if not is_there:
            self.gone.add(folder)
            folder = "/" + folder.replace("\\", "/") if _OF_WINDOWS.match(folder) else folder
        # Without a home, as with servers elsewhere, nothing is noted.
        if self.note and is_there and (name := project_of(self.home, self.namespace, folder)):
            return name
        if self._registry is None:
            self._registry = known_projects(self.home, self.namespace)
        return project_named(self._registry, folder, is_there=is_there)


@dataclass(frozen=True, slots=True)
class Transcripts:
    """Files and folders of one client."""

    format: TranscriptFormat
    paths: tuple[Path, ...]

    def listed(self) -> Iterator[SessionEntry]:
        """Yield the sessions, without reading them."""
        for path in self.paths:
            yield from READERS[self.format].sessions(path)


@dataclass(slots=True)
class SessionRows:
    """Reads sessions one after the other; `position`: how many of their bytes are read, `silent` and so on count them.

    The list is held: some hundred bytes for a session.
    """

    projects: Projects
    sessions: list[tuple[TranscriptFormat, StoredSession]] = field(default_factory=list)
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    problems: list[Rejection] = field(default_factory=list)
    position: int = 0
    read: int = 0
    turns: int = 0

    def list_all(self, several: Iterable[Transcripts]) -> None:
        """List the sessions of all of them, the oldest first."""
        for transcripts in several:
            for item in transcripts.listed():
                if isinstance(item, LeftOut):
                    self.left_out[item] += 1
                elif isinstance(item, Rejection):
                    self.problems.append(item)
                else:
                    self.sessions.append((transcripts.format, item))
        self.sessions.sort(key=lambda each: each[1].began)

    @property
    def size(self) -> int:
        """How many bytes there are to read."""
        return sum(session.size for _, session in self.sessions)

    def rows(self) -> Iterator[UncheckedRow | Rejection]:
        """Yield each turn as a row, and what could not be read."""
        yield from self.problems
        for kind, session in self.sessions:
            try:
                yield from self._rows_of(kind, session)
            except UNUSABLE as problem:
                yield unreadable(session.path, problem)
            self.position += session.size
            self.read += 1

    def _rows_of(self, kind: TranscriptFormat, session: StoredSession) -> Iterator[UncheckedRow | Rejection]:
        facts, project = SessionFacts(), self.projects.of("")
        has_turns = is_refused = False
        for said in READERS[kind].said(session):
            match said:
                case SessionFacts(is_subagent=True):
                    self.left_out[SUBAGENTS] += 1
                    return
                case SessionFacts():
                    facts, project = said, self.projects.of(said.folder)
                case Spoken():
                    has_turns = True
                    self.turns += 1
                    thread = facts.session or session.key or Path(session.path).stem
                    turn = said.turn if said.turn.moment else said.turn._replace(moment=facts.began)
                    for record in records_of(turn, kind, thread):
                        values = dict(record) | ({"project": project} if project else {})
                        yield UncheckedRow(said.line, values, session.path)
                case LeftOut():
                    self.left_out[said] += 1
                case Rejection():
                    is_refused |= said.field == FILE
                    yield said
        if not has_turns and not is_refused:
            self.left_out[SILENT] += 1
        elif has_turns and not facts.folder and not project:
            self.left_out[NO_FOLDER] += 1


@dataclass(frozen=True, slots=True)
class ImportedSessions:
    """The result of an import of sessions, and how many seconds it took."""

    importer: Importer
    seconds: float


async def import_sessions(
    rows: SessionRows, settings: Settings, options: Options, rejects: Path | None, counts: Counter[ReceiptStatus]
) -> ImportedSessions:
    """Import the turns of all sessions; `counts` has what became of them.

    Secrets are left out whatever the settings say, as hooks do. Raises EngramqError, NoWorker, CannotReject.
    """
    begun = time.monotonic()
    async with importing(settings, options, rejects, counts, rows, rows.size or None) as importer:
        importer.secrets = Secrets()
        checked = options.checked(rows.rows(), settings, importer.secrets)
        await importer.run(make_batches(checked, options.batch_size, BATCH_CHARS))
    return ImportedSessions(importer, time.monotonic() - begun)


@dataclass(slots=True)
class Group:
    """Sessions of one client in one project: how many, their bytes, and when the oldest began."""

    client: TranscriptFormat
    project: str
    sessions: int = 0
    size: int = 0
    since: float = float("inf")
    is_gone: bool = False


def groups_of(rows: SessionRows) -> tuple[Sequence[Group], Sequence[Rejection]]:
    """Return the sessions by client and project, and which cannot be used; of each its beginning alone is read."""
    groups: dict[tuple[TranscriptFormat, str], Group] = {}
    problems: list[Rejection] = []
    heads: dict[tuple[TranscriptFormat, str], SessionFacts] = {}
    for kind, session in rows.sessions:
        shared = (kind, READERS[kind].shares(session))
        try:
            if shared not in heads:
                heads[shared] = READERS[kind].head(session)
            head = heads[shared]
            project = rows.projects.of(head.folder)
        except UNUSABLE as problem:
            problems.append(unreadable(session.path, problem))
            continue
        if head.is_subagent:
            continue
        group = groups.setdefault((kind, project), Group(kind, project))
        group.sessions += 1
        group.size += session.size
        group.since = min(group.since, session.began)
        group.is_gone |= head.folder in rows.projects.gone
    in_order = sorted(groups.values(), key=lambda group: (group.client, -group.sessions, group.project))
    return in_order, problems
