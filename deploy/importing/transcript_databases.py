"""Read sessions that Cursor and OpenCode keep in databases, and the files that OpenCode once wrote.

Databases are opened to be read only, also while their client runs. Cursor was not run for this: its form is as others
have described it.
"""

import contextlib
import functools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from engramq.deploy.importing.exports import LeftOut, moment
from engramq.deploy.importing.fields import list_at, value_at
from engramq.deploy.importing.plain_files import OBJECT_BYTES, ForeignDatabase, plain_files, plain_folders, read_plain
from engramq.deploy.importing.records import LINE, Rejection
from engramq.deploy.importing.transcript_files import (
    OF_TOOLS,
    TOO_LONG,
    UNSPOKEN,
    StoredSession,
    TranscriptEntry,
    unreadable,
)
from engramq.deploy.local.hooks import turns
from engramq.deploy.local.hooks.transcripts import LONGEST_LINE, parse_line
from engramq.schemas.packed_lines import UnusableFile

_UNFINISHED: Final = LeftOut("answers that are not finished", "answer that is not finished")
_ID: Final = re.compile(r"[\w-]+")
_QUESTION: Final = "question"
_MS: Final = 1000


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _time(milliseconds: object) -> float:
    return milliseconds / _MS if isinstance(milliseconds, int) else 0.0


def _moment(given: object) -> str:
    """Return a time as it is written; given in milliseconds since 1970, or written already."""
    return moment(given / _MS if isinstance(given, int) else given) or ""


def _sized(path: str, sessions: list[tuple[str, float]]) -> Iterator[StoredSession]:
    """Yield sessions by id and beginning, each with its share of the database's bytes."""
    share = Path(path).stat().st_size // max(len(sessions), 1)
    for key, began in sessions:
        yield StoredSession(path, share, began, key)


def list_opencode(path: Path) -> Iterator[StoredSession | LeftOut | Rejection]:
    """Yield the sessions of OpenCode's folder, or of one of its databases."""
    path = path.parent if path.name == "storage" and path.is_dir() else path
    databases = sorted(path.glob("opencode*.db")) if path.is_dir() else [path.resolve()]
    try:
        folders = plain_folders(path, "storage", "session")
        sessions = [file for folder in folders for file in plain_files(folder, suffix=".json")]
    except (OSError, UnusableFile) as problem:
        yield unreadable(str(path / "storage"), problem)
        sessions = []
    for place in (*databases, *sessions):
        try:
            if place in databases:
                yield from _opencode_sessions(str(place))
            elif not place.is_symlink():
                status = place.lstat()
                yield StoredSession(str(place), status.st_size, status.st_mtime)
        except (OSError, UnusableFile) as problem:
            yield unreadable(str(place), problem)


def _opencode_sessions(database: str) -> Iterator[StoredSession]:
    with ForeignDatabase(database) as opened:
        rows = [(_text(key), _time(created)) for key, created in opened.rows("opencode_sessions")]
        yield from _sized(database, sorted(rows, key=lambda row: row[1]))


def head_of_opencode(session: StoredSession) -> turns.SessionFacts:
    """Return what is known of a session without its messages."""
    if not session.key:
        content = _object(Path(session.path))
        return turns.SessionFacts(
            turns.text_at(content, "id"), turns.text_at(content, "directory"), bool(content.get("parentID"))
        )
    with ForeignDatabase(session.path) as opened:
        for folder, is_subagent in opened.rows("opencode_head", session=session.key):
            return turns.SessionFacts(session.key, _text(folder), bool(is_subagent))
    return turns.SessionFacts(session.key)


def _object(file: Path) -> Mapping[str, Any]:
    return parse_line(read_plain(str(file), LONGEST_LINE)) or {}


def said_in_opencode(session: StoredSession) -> Iterator[TranscriptEntry]:
    """Yield what is said in a session."""
    facts = head_of_opencode(session)
    yield facts
    parts = _stored_parts(session) if session.key else _filed_parts(Path(session.path), facts.session)
    said: Mapping[str, Any] = {}
    key, texts = "", list[str]()
    for message, data, part in parts:
        if message != key:
            yield from _opencode_turn(key, said, texts)
            key, said, texts = message, parse_line(data or b"") or {}, []
        content = None if part is None else parse_line(part)
        if part is None:
            yield TOO_LONG
        elif content is None:
            yield Rejection(0, LINE, f"A part of message {message} is no JSON object in UTF-8.", session.path)
        elif content.get("type") == "text" and not content.get("synthetic") and not content.get("ignored"):
            texts.append(turns.text_at(content, "text"))
        else:
            answer = _answer_in(message, content)
            yield turns.Spoken(answer) if answer else OF_TOOLS
    yield from _opencode_turn(key, said, texts)


def _answer_in(message: str, part: Mapping[str, Any]) -> turns.Turn | None:
    """Return what a person has answered to the model's questions, each with its question; None for another tool."""
    questions, given = value_at(part, "state.input.questions"), value_at(part, "state.metadata.answers")
    if part.get("tool") != _QUESTION or not isinstance(questions, list) or not isinstance(given, list):
        return None
    pairs = zip(questions, given, strict=False)
    words = turns.join_answers(
        (value_at(asked, "question"), several) for asked, several in pairs if isinstance(several, list)
    )
    return turns.make_turn(
        f"{message}:{part.get('callID')}", turns.USER, words, _moment(value_at(part, "state.time.end"))
    )


def _stored_parts(session: StoredSession) -> Iterator[tuple[str, bytes, bytes | None]]:
    with ForeignDatabase(session.path) as opened:
        for message, data, part in opened.rows("opencode_parts", session=session.key):
            yield _text(message), data, part


def _filed_parts(file: Path, session: str) -> Iterator[tuple[str, bytes, bytes | None]]:
    if session and not _ID.fullmatch(session):
        raise UnusableFile("Its id is none of OpenCode's.")  # it would name files elsewhere
    storage = file.parents[2]
    for message in plain_files(storage, "message", session, suffix=".json") if session else ():
        said = read_plain(str(message), LONGEST_LINE)
        for part in plain_files(storage, "part", message.stem, suffix=".json"):
            is_long = part.lstat().st_size > LONGEST_LINE
            yield message.stem, said, None if is_long else read_plain(str(part), LONGEST_LINE)


def _opencode_turn(key: str, message: Mapping[str, Any], texts: list[str]) -> Iterator[TranscriptEntry]:
    role, times = message.get("role"), message.get("time")
    times = times if isinstance(times, dict) else {}
    if message.get("summary") is True:
        yield UNSPOKEN[turns.SUMMARY]
    elif role == turns.ASSISTANT and "completed" not in times:
        yield _UNFINISHED
    else:
        speaker = role if role in (turns.USER, turns.ASSISTANT) else None
        turn = turns.make_turn(key, speaker, "\n\n".join(texts), _moment(times.get("created")))
        if turn is not None:
            yield turns.Spoken(turn)


_GLOBAL: Final = ("globalStorage", "state.vscdb")
_COMPOSER: Final = "composerData:"
_SPEAKERS: Final = {"1": turns.USER, "2": turns.ASSISTANT}
# The key of a session that another one has begun.
_BEGUN_BY_ANOTHER: Final = ("isSubagent", "subagentInfo", "isBestOfNSubcomposer")


def list_cursor(path: Path) -> Iterator[StoredSession | LeftOut | Rejection]:
    """Yield the sessions of Cursor's folder `User`, or of its database."""
    database = path.joinpath(*_GLOBAL) if path.is_dir() else path.resolve()
    try:
        if path.is_dir() and database not in plain_files(path, _GLOBAL[0], suffix=_GLOBAL[1]):
            raise UnusableFile(f"There is no {'/'.join(_GLOBAL)} in it.")
        with ForeignDatabase(str(database)) as opened:
            keys = [_text(key).removeprefix(_COMPOSER) for (key,) in opened.rows("cursor_composers")]
            yield from _sized(str(database), [(key, 0.0) for key in keys])
    except (OSError, UnusableFile) as problem:
        yield unreadable(str(database), problem)


def head_of_cursor(session: StoredSession) -> turns.SessionFacts:
    """Return what is known of a session without its messages: the folder of the window that lists it."""
    return turns.SessionFacts(session.key, _folders(str(Path(session.path).parents[1])).get(session.key, ""))


@functools.lru_cache(maxsize=4)
def _folders(user: str) -> Mapping[str, str]:
    """Return the folder of each session that a window of one folder lists."""
    folders: dict[str, str] = {}
    windows: list[Path] = []
    with contextlib.suppress(OSError, UnusableFile):
        windows = plain_folders(Path(user), "workspaceStorage")
    for workspace in (window / "workspace.json" for window in windows):
        with contextlib.suppress(OSError, UnusableFile):
            folder = _path_of(_object(workspace).get("folder"))
            with ForeignDatabase(str(workspace.with_name("state.vscdb"))) as opened:
                for (value,) in opened.rows("cursor_workspace"):
                    for each in list_at(parse_line(_text(value).encode()), "allComposers"):
                        folders[str(value_at(each, "composerId") or "")] = folder
    return folders


def _path_of(address: object) -> str:
    try:
        parts = urlsplit(address if isinstance(address, str) else "")
    except ValueError:  # "file://[x"
        return ""
    return unquote(parts.path) if parts.scheme == "file" else ""


def said_in_cursor(session: StoredSession) -> Iterator[TranscriptEntry]:
    """Yield what is said in a session."""
    facts = head_of_cursor(session)
    yield facts
    with ForeignDatabase(session.path) as opened:
        composer = _value(opened, f"{_COMPOSER}{session.key}", OBJECT_BYTES) or {}
        if any(composer.get(name) for name in _BEGUN_BY_ANOTHER):
            yield facts._replace(is_subagent=True)
        for key, bubble in _bubbles(opened, session.key, composer):
            if bubble is None:
                yield Rejection(0, LINE, f"{key} is no JSON object in UTF-8, or longer than 4 MiB.", session.path)
                continue
            addresses = bubble.get("workspaceUris")
            if not facts.folder and isinstance(addresses, list) and addresses:
                facts = facts._replace(folder=_path_of(addresses[0]))
                yield facts
            speaker = _SPEAKERS.get(str(bubble.get("type")))
            at = _moment(bubble.get("createdAt") or composer.get("createdAt"))
            turn = turns.make_turn(f"{session.key}:{key}", speaker, turns.text_at(bubble, "text"), at)
            yield OF_TOOLS if turn is None else turns.Spoken(turn)


def _bubbles(
    opened: ForeignDatabase, composer: str, content: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """Yield the messages of a session by their ids, in its own order where it says one."""
    for bubble in list_at(content, "conversation"):  # of older versions
        if isinstance(bubble, dict):
            yield turns.text_at(bubble, "bubbleId"), bubble
    headers = list_at(content, "fullConversationHeadersOnly")
    keys = [turns.text_at(header, "bubbleId") for header in headers if isinstance(header, dict)]
    if not keys:
        keys = [_text(key).rpartition(":")[2] for (key,) in opened.rows("cursor_bubbles", composer=composer)]
    for key in keys:
        for (value,) in opened.rows("cursor_value", key=f"bubbleId:{composer}:{key}"):
            yield key, None if value is None else parse_line(_bytes(value))


def _value(opened: ForeignDatabase, key: str, longest: int) -> Mapping[str, Any] | None:
    for (value,) in opened.rows("cursor_value", key=key, longest=longest):
        return None if value is None else parse_line(_bytes(value))
    return None


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()
