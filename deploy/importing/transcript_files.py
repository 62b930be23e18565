"""Read transcripts that are files of lines, as Claude Code, Codex and Gemini CLI write them.

A folder is listed once, without opening what is in it, and no symbolic link in it is followed.
"""

import contextlib
import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias

from engramq.deploy.importing.exports import LeftOut, damage_in, read_beginning
from engramq.deploy.importing.plain_files import OBJECT_BYTES, BoundedStream, open_plain, read_plain
from engramq.deploy.importing.qwen import QWEN, is_of_qwen
from engramq.deploy.importing.records import FILE, LINE, Rejection
from engramq.deploy.local.hooks.transcripts import HEAD_LINES, LONGEST_LINE, Transcript, parse_line, whole_lines
from engramq.deploy.local.hooks.turns import SUBAGENT, SUMMARY, ClientFormat, SessionFacts, Spoken, object_in, text_at
from engramq.schemas.packed_lines import UnusableFile

HEAD_BYTES: Final = 512 * 1024  # of the longest known the first line has 40,000
_FOLDER_BYTES: Final = 16 * 1024  # of the file that names the folder of sessions
_LINK: Final = "It is a symbolic link, and none is followed."
_PACKED: Final = ".zst"
_OBJECT: Final = ".json"
_LISTS: Final = ("messages", "history", "items")  # of such a session
_BEGUN: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)")

SUBAGENTS: Final = LeftOut("sessions of subagents", "session of a subagent")
UNSPOKEN: Final = {
    SUBAGENT: LeftOut("turns of subagents", "turn of a subagent"),
    SUMMARY: LeftOut("summaries of compactions", "summary of a compaction"),
}
TOO_LONG: Final = LeftOut(
    f"lines of more than {LONGEST_LINE // 2**20} MiB", f"line of more than {LONGEST_LINE // 2**20} MiB"
)
OF_TOOLS: Final = LeftOut("lines of tools and of the client itself", "line of a tool or of the client itself")
_HALF: Final = LeftOut("last lines that are half written", "last line that is half written")


class StoredSession(NamedTuple):
    """A session on the disk: the file or database that it is in, and in a database its id.

    `size` in bytes; `began` in seconds since 1970, of some when they were last written.
    """

    path: str
    size: int
    began: float
    key: str = ""


TranscriptEntry: TypeAlias = SessionFacts | Spoken | LeftOut | Rejection


def unreadable(path: str, problem: Exception) -> Rejection:
    """Return the rejection of a file or folder that cannot be read, or holds what its client never writes."""
    match problem:
        case OSError():
            reason = f"It cannot be read: {problem.strerror or problem}."
        case UnusableFile():
            reason = str(problem)
        case _:
            reason = f"It is not of a form that is known ({type(problem).__name__})."
    return Rejection(0, FILE, reason, path)


def list_files(client: ClientFormat, path: Path) -> Iterator[StoredSession | LeftOut | Rejection]:
    """Yield the sessions of a file, or of a folder and those in it."""
    if not path.is_dir():
        try:  # one that the user names may be a link
            yield _session(str(path.resolve()), path.name, path.stat())
        except OSError as problem:
            yield unreadable(str(path), problem)
        return
    parts = [path / part for part in client.parts if (path / part).is_dir()]
    yield from (Rejection(0, FILE, _LINK, str(part)) for part in parts if part.is_symlink())
    waiting = [str(part) for part in parts or [path] if part == path or not part.is_symlink()]
    name = re.compile(client.file_names)
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError as problem:
            yield unreadable(folder, problem)
            continue
        for entry in entries:
            is_transcript = name.fullmatch(entry.name) is not None
            if entry.is_symlink():
                if is_transcript or entry.is_dir():
                    yield Rejection(0, FILE, _LINK, entry.path)
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif is_transcript:
                with contextlib.suppress(FileNotFoundError):  # its client has cleared it away
                    yield _session(entry.path, entry.name, entry.stat(follow_symlinks=False))
            elif entry.name.endswith(".jsonl"):
                yield SUBAGENTS


def _session(path: str, name: str, status: os.stat_result) -> StoredSession:
    begun = _BEGUN.search(name)
    try:
        began = datetime.fromisoformat("{}T{}:{}".format(*begun.groups())).replace(tzinfo=UTC) if begun else None
    except ValueError:
        began = None
    return StoredSession(path, status.st_size, began.timestamp() if began else status.st_mtime)


def head_of(client: ClientFormat, session: StoredSession) -> SessionFacts:
    """Return what the first lines of a session say of it; raises OSError and UnusableFile."""
    facts = _begin(client, session)
    if session.path.endswith(_OBJECT):
        with open_plain(session.path) as file:
            facts = _learned(facts, client.facts_of(read_beginning(file, *_LISTS).members))
        return facts if facts.session else _learned(facts, client.facts_of(_object_in(session.path)))
    read = 0
    with _unpack(session.path) as stream:
        for number, (length, line) in enumerate(whole_lines(stream), 1):
            content = parse_line(line) if line else None
            facts = facts if content is None else _learned(facts, client.facts_of(content))
            read += length
            if (facts.session and facts.folder) or number == HEAD_LINES or read >= HEAD_BYTES:
                break
    return facts


def _begin(client: ClientFormat, session: StoredSession) -> SessionFacts:
    """Return what tells of a session without its lines: a client may write the folder that it was in beside it."""
    if not client.folder_file:
        return SessionFacts()
    folder, name = os.path.split(session.path)
    stem = name.partition(".")[0]
    beside = os.path.normpath(os.path.join(folder, client.folder_file.format(stem)))  # noqa: PTH118
    with contextlib.suppress(OSError, UnusableFile, ValueError, RecursionError):
        said = _read_beside(beside, os.lstat(beside).st_mtime_ns)
        return SessionFacts(folder=said) if isinstance(said, str) else client.facts_of(object_in(said.get(stem, said)))
    return SessionFacts()


@functools.lru_cache(maxsize=4)  # one file may tell of all sessions
def _read_beside(path: str, _written: int) -> str | Mapping[str, Any]:
    is_object = path.endswith(_OBJECT)
    text = read_plain(path, OBJECT_BYTES if is_object else _FOLDER_BYTES).decode().strip()
    said = json.loads(text) if is_object else text
    if isinstance(said, str | dict):
        return said
    return {text_at(each, "sessionId"): each for each in map(object_in, said if isinstance(said, list) else [])}


def _learned(facts: SessionFacts, more: SessionFacts) -> SessionFacts:
    return SessionFacts(
        facts.session or more.session,
        facts.folder or more.folder,
        facts.is_subagent or more.is_subagent,
        facts.began or more.began,
    )


@dataclass(slots=True)
class _TranscriptProgress:
    """How far a session is read."""

    client: ClientFormat
    facts: SessionFacts
    transcript: Transcript
    line: int = 0
    damaged: int = 0  # lines
    first_damaged: int = 0
    is_ours: bool = False
    keys: set[str] = field(default_factory=set)

    def of(self, line: bytes) -> Iterator[TranscriptEntry]:
        """Yield what a line says."""
        if not line:
            yield TOO_LONG
        elif (content := self.transcript.parse(line)) is not None:
            yield from self.of_object(content)
        elif line.strip():
            self.damaged += 1
            self.first_damaged = self.first_damaged or self.line

    def of_object(self, content: Mapping[str, Any]) -> Iterator[TranscriptEntry]:
        """Yield what an object says."""
        self.is_ours = self.is_ours or self.client.is_ours(content)
        facts = _learned(self.facts, self.client.facts_of(content))
        if facts != self.facts:
            self.facts = facts
            yield facts
        unknown = self.transcript.unknown.total()
        has_turn = False
        for spoken in self.transcript.read(content, self.line):
            has_turn = True
            yield from self.once(spoken)
        if not has_turn and self.transcript.unknown.total() == unknown:
            yield UNSPOKEN.get(self.client.unspoken(content), OF_TOOLS)

    def once(self, spoken: Spoken) -> Iterator[TranscriptEntry]:
        """Yield a turn the first time that it comes: Gemini CLI writes a message anew for each of its tools."""
        if spoken.turn.key in self.keys:
            yield OF_TOOLS
        else:
            self.keys.add(spoken.turn.key)
            yield spoken


def said_in_file(client: ClientFormat, session: StoredSession) -> Iterator[TranscriptEntry]:
    """Yield what a session says, its facts before the turns that they are of; raises OSError and UnusableFile."""
    reading = _TranscriptProgress(client, _begin(client, session), Transcript(client))
    if reading.facts != SessionFacts():
        yield reading.facts
    if session.path.endswith(_OBJECT):
        yield from _said_in_object(reading, session)
        return
    with _unpack(session.path) as file:
        for number, (_, line) in enumerate(whole_lines(file), 1):
            if line is None:
                yield _HALF
                break
            reading.line = number  # of a whole one: a session that has just begun is no file of another form
            yield from reading.of(line)
    yield from _finish(reading, session.path)


def _said_in_object(reading: _TranscriptProgress, session: StoredSession) -> Iterator[TranscriptEntry]:
    """Yield what is in a session that is one JSON object, as older versions of Gemini CLI wrote it."""
    content = _object_in(session.path)
    messages = next((given for name in _LISTS if isinstance(given := content.get(name), list)), None)
    if messages is None:
        raise UnusableFile("It is no JSON object with messages.")
    yield from reading.of_object({**content, **dict.fromkeys(_LISTS)})
    for message in messages:
        if isinstance(message, dict):
            yield from reading.of_object(message)
    yield from _finish(reading, session.path)


def _object_in(path: str) -> Mapping[str, Any]:
    """Return the object that a file is; raises UnusableFile, which says where it is damaged, and OSError."""
    data = read_plain(path, OBJECT_BYTES)
    if (content := parse_line(data)) is None:
        raise damage_in(data)
    return content


def _finish(reading: _TranscriptProgress, path: str) -> Iterator[TranscriptEntry]:
    if reading.line and not reading.is_ours:
        client = reading.client.name
        yield Rejection(1, FILE, f"No line is as {client} writes it: is it of another client, or a new form?", path)
        return
    if reading.damaged:
        several = f"{reading.damaged} lines are" if reading.damaged > 1 else "The line is"
        yield Rejection(reading.first_damaged, LINE, f"{several} no JSON object in UTF-8.", path)
    for spoken in reading.transcript.rest(has_ended=True):
        yield from reading.once(spoken)
    for kind, count in reading.transcript.unknown.items():
        of_kind = f"of a kind that this version does not know: {kind}"
        yield from [LeftOut(f"lines {of_kind}", f"line {of_kind}")] * count


@contextlib.contextmanager
def _unpack(path: str) -> Iterator[BoundedStream]:
    """Open a transcript, also one that is packed; raises OSError and UnusableFile."""
    with open_plain(path) as raw:
        if path.endswith(_PACKED):
            with _unpacked(raw) as file:
                yield BoundedStream(file)
        else:
            yield BoundedStream(raw)


@contextlib.contextmanager
def _unpacked(raw: IO[bytes]) -> Iterator[IO[bytes]]:
    if importlib.util.find_spec("compression") is not None:  # from Python 3.14 on
        from compression import zstd  # type: ignore[import-not-found]  # noqa: PLC0415 - older ones have none

        try:
            with zstd.open(raw) as file:
                yield file
        except (zstd.ZstdError, EOFError) as problem:
            raise UnusableFile(f"It is damaged: {problem}.") from None
    elif program := shutil.which("zstd"):
        with _pipe_through([program, "-dcq"], raw) as file:
            yield file
    else:
        raise UnusableFile("It is packed by zstd. Install the program zstd, or unpack it.")


@contextlib.contextmanager
def _pipe_through(command: list[str], raw: IO[bytes]) -> Iterator[IO[bytes]]:
    """Give what a program makes of a file; raises UnusableFile where it fails."""
    pipe, silence = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=raw, stdout=pipe, stderr=silence) as process:  # noqa: S603
        assert process.stdout is not None
        try:
            yield process.stdout
            is_read = not process.stdout.read(1)
        except BaseException:
            process.kill()
            raise
        if not is_read:
            process.kill()
        elif process.wait() != 0:
            raise UnusableFile("It is damaged: zstd could not unpack all of it.")


def client_of(path: Path, clients: tuple[ClientFormat, ...]) -> str:
    """Return whose transcript a file is, by its first lines; "" where none of the clients knows them."""
    named, names = "", {client.name for client in clients}
    with contextlib.suppress(OSError, UnusableFile), open_plain(str(path.resolve())) as file:
        if path.suffix == _OBJECT:
            members = read_beginning(file, *_LISTS).members
            return _recognize(members, clients) or _recognize(_object_in(str(path.resolve())), clients)
        for number, (_, line) in enumerate(whole_lines(file)):
            content = parse_line(line) if line else None
            if content is not None:
                named = named or _recognize(content, clients)
                if is_of_qwen(content):
                    return QWEN.name if QWEN.name in names else ""
            if number == HEAD_LINES or (named and content is not None and "message" in content):
                break
    return named


def _recognize(content: Mapping[str, Any], clients: tuple[ClientFormat, ...]) -> str:
    for client in clients:
        facts = client.facts_of(content)
        if facts.session and client.is_ours(content):
            return client.name
    return ""
