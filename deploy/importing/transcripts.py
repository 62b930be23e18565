"""Say where each coding agent keeps its sessions, and how they are read: one table for all of them.

Hooks read the same files by the same formats: a turn that a hook has captured is known again by its id.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from engramq.deploy.connect.catalogue import UserPlaces
from engramq.deploy.importing import transcript_databases as databases
from engramq.deploy.importing.cline import CLINE
from engramq.deploy.importing.continue_sessions import CONTINUE
from engramq.deploy.importing.copilot import COPILOT
from engramq.deploy.importing.exports import LeftOut
from engramq.deploy.importing.pi import PI
from engramq.deploy.importing.qwen import QWEN
from engramq.deploy.importing.records import Rejection
from engramq.deploy.importing.transcript_files import (
    StoredSession,
    TranscriptEntry,
    client_of,
    head_of,
    list_files,
    said_in_file,
)
from engramq.deploy.local.hooks.transcripts import CLIENTS
from engramq.deploy.local.hooks.turns import ClientFormat, SessionFacts
from engramq.schemas.vocabulary import TranscriptFormat

_CLIENTS: Final = CLIENTS | {client.name: client for client in (COPILOT, QWEN, PI, CLINE, CONTINUE)}
SessionEntry: TypeAlias = StoredSession | LeftOut | Rejection


@dataclass(frozen=True, slots=True)
class TranscriptReader:
    """How the sessions of a client are found and read.

    `places`: where they lie. `sessions` lists those of a file or folder without reading them, `head` tells of one what
    its beginning says, `said` yields all of it. `shares` names what sessions share whose head is the same, so that one
    of them is looked at. Reading raises OSError and UnusableFile.
    """

    places: Callable[[UserPlaces], tuple[Path, ...]]
    sessions: Callable[[Path], Iterator[SessionEntry]]
    head: Callable[[StoredSession], SessionFacts]
    said: Callable[[StoredSession], Iterator[TranscriptEntry]]
    shares: Callable[[StoredSession], str]


def _of_files(name: TranscriptFormat) -> TranscriptReader:
    client = _CLIENTS[name]
    # Others have sessions of several folders in one, or those of subagents among them.
    one_folder = name in (
        TranscriptFormat.CLAUDE_CODE, TranscriptFormat.GEMINI, TranscriptFormat.QWEN, TranscriptFormat.PI
    )  # fmt: skip
    return TranscriptReader(
        places=partial(_places, client),
        sessions=partial(list_files, client),
        head=partial(head_of, client),
        said=partial(said_in_file, client),
        shares=lambda session: os.path.dirname(session.path) if one_folder else session.path,  # noqa: PTH120 - a text
    )


def _places(client: ClientFormat, at: UserPlaces) -> tuple[Path, ...]:
    # The variable of Gemini CLI names what stands for the user's folder.
    moved = at.folder(client.variable) / client.folder
    home = moved if client.name == TranscriptFormat.GEMINI else at.folder(client.variable, client.folder)
    return tuple(home / part for part in client.parts)


READERS: Final[Mapping[TranscriptFormat, TranscriptReader]] = {
    **{name: _of_files(name) for name in map(TranscriptFormat, _CLIENTS)},
    TranscriptFormat.CURSOR: TranscriptReader(
        places=lambda at: (at.configuration() / "Cursor" / "User",),
        sessions=databases.list_cursor,
        head=databases.head_of_cursor,
        said=databases.said_in_cursor,
        shares=lambda session: session.key,
    ),
    TranscriptFormat.OPENCODE: TranscriptReader(
        places=lambda at: (at.folder("XDG_DATA_HOME", ".local", "share") / "opencode",),
        sessions=databases.list_opencode,
        head=databases.head_of_opencode,
        said=databases.said_in_opencode,
        shares=lambda session: session.key or session.path,
    ),
}


def transcript_format(path: Path) -> TranscriptFormat | None:
    """Return whose transcript a file is, as its first lines tell, or whose folder of sessions; None for another one."""
    if path.is_dir():
        return next((TranscriptFormat(client.name) for client in _CLIENTS.values() if _is_home(client, path)), None)
    name = client_of(path, tuple(_CLIENTS.values())) if path.is_file() else ""
    return TranscriptFormat(name) if name else None


def _is_home(client: ClientFormat, folder: Path) -> bool:
    """Say whether a client keeps its sessions in a folder: it has their folders, and one that the client wrote."""
    if not any((folder / part).is_dir() for part in client.parts):
        return False
    first = next((each for each in list_files(client, folder) if isinstance(each, StoredSession)), None)
    return first is not None and client_of(Path(first.path), (client,)) == client.name
