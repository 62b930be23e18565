"""Read the transcripts of clients that write such, line by line, for hooks and for imports.

Lines are only ever added to a transcript, so its last one may be half written.
"""

import contextlib
import json
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final, Protocol

from engramq.deploy.local.hooks import claude_code, codex, gemini, turns


def _marks(kinds: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(f'"{kind}"'.encode() for kind in kinds)


CLAUDE_CODE: Final = turns.ClientFormat(
    "claude-code",
    claude_code.ClaudeCodeLines,
    spoken=(b'"user', b'"assistant', b"<command-args>", *_marks((claude_code.QUEUE, claude_code.QUEUED))),
    silent=_marks(claude_code.SILENT),
    kind_of=claude_code.kind_of,
    kinds=claude_code.KINDS,
    is_ours=claude_code.is_ours,
    facts_of=claude_code.facts_of,
    variable="CLAUDE_CONFIG_DIR",
    folder=".claude",
    parts=("projects",),
    file_names=r"(?!agent-).+\.jsonl",  # those of subagents
    unspoken=claude_code.unspoken,
    file_tools={**dict.fromkeys(("Read", "Edit", "MultiEdit", "Write"), "file_path"), "NotebookEdit": "notebook_path"},
)

CODEX: Final = turns.ClientFormat(
    "codex",
    codex.CodexLines,
    spoken=codex.SPOKEN,
    silent=_marks(codex.SILENT),
    kind_of=codex.kind_of,
    kinds=codex.KINDS,
    is_ours=codex.is_ours,
    facts_of=codex.facts_of,
    variable="CODEX_HOME",
    folder=".codex",
    parts=("sessions", "archived_sessions"),
    file_names=r"rollout-.+\.(?:json|jsonl(?:\.zst)?)",  # old ones are packed, the first are one object each
    file_tools={"apply_patch": "command"},  # what its shell reads cannot be told from what it runs
    from_start=True,
)


def _gemini_facts(line: Mapping[str, Any]) -> turns.SessionFacts:
    if "projectHash" not in line:
        return turns.SessionFacts()
    return turns.SessionFacts(turns.text_at(line, "sessionId"), "", line.get("kind") == turns.SUBAGENT)


GEMINI: Final = turns.ClientFormat(
    "gemini",
    gemini.GeminiLines,
    spoken=(b'"user', b'"gemini"', b'"messages"'),
    silent=_marks(gemini.SILENT),
    kind_of=gemini.kind_of,
    kinds=gemini.KINDS,
    is_ours=lambda line: (
        "projectHash" in line or "$set" in line or (isinstance(line.get("type"), str) and "timestamp" in line)
    ),
    facts_of=_gemini_facts,
    variable="GEMINI_CLI_HOME",
    folder=".gemini",
    parts=("tmp",),
    folder_file="../.project_root",
    file_names=r"session-.+\.jsonl?",  # others lie in the folder of the session that has begun them
    event_names=gemini.EVENT_NAMES,
    file_tools=gemini.FILE_TOOLS,
    restarts=False,
    from_start=True,
)

CLIENTS: Final = {client.name: client for client in (CLAUDE_CODE, CODEX, GEMINI)}
# A longer line is the output of a tool, which is not kept.
LONGEST_LINE: Final = 4 * 1024 * 1024
# Whose session it is, and its folder, is named in its first lines.
HEAD_LINES: Final = 50
_NAMES: Final = 50  # of kinds
_DECODER: Final = json.JSONDecoder()


def open_transcript(path: str) -> IO[bytes]:
    """Open a transcript to be read; raises OSError for what is no file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would be waited for
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no file")
    return os.fdopen(descriptor, "rb")


class LineSource(Protocol):
    """A source of lines."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line, or that much of it."""
        ...


def whole_lines(file: LineSource) -> Iterator[tuple[int, bytes | None]]:
    """Give how many bytes each line takes, and the line: b"" for one that is too long, None for a last one that is cut.

    An object is whole with its last bracket, whether or not a line's end follows. A client that was killed before that
    end writes its next object behind: each is a line.
    """
    while line := file.readline(LONGEST_LINE):
        length, is_whole = len(line), line.endswith(b"\n")
        while not is_whole and (rest := file.readline(LONGEST_LINE)):
            length, is_whole, line = length + len(rest), rest.endswith(b"\n"), b""
        *several, line = _objects(line)
        yield from ((len(each), each) for each in several)
        yield length - sum(map(len, several)), line if is_whole or parse_line(line) is not None else None


def _objects(line: bytes) -> list[bytes]:
    """Cut a line behind each object that another one follows; what is no JSON stays behind the last."""
    if b"}{" not in line or parse_line(line) is not None:
        return [line]
    several: list[bytes] = []
    at = 0
    with contextlib.suppress(ValueError, RecursionError):
        text = line.decode()
        while (end := _DECODER.raw_decode(text, at)[1]) < len(text) and text[end] == "{":
            several.append(text[at:end].encode())
            at = end
    return [*several, line[sum(map(len, several)) :]]


def parse_line(line: bytes) -> Mapping[str, Any] | None:
    """Return the object that a line is, None where it is none."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def known_kinds(client: turns.ClientFormat) -> int:
    """Return a number that stands for the kinds of lines that this version knows."""
    return zlib.crc32(" ".join(sorted(client.kinds)).encode())


class Transcript:
    """Reads one transcript line by line.

    `unknown` counts lines by their kind that this version does not know; the first stands at `unknown_at`.
    """

    def __init__(self, client: turns.ClientFormat) -> None:
        self._client = client
        self._lines = client.reader()
        self._read = 0
        self.unknown = Counter[str]()
        self.unknown_at = 0

    def parse(self, line: bytes) -> Mapping[str, Any] | None:
        """Return a line's object; {} for one that cannot speak, as most are of tools; None for what is no object."""
        self._read += 1
        if self._read <= HEAD_LINES or any(word in line for word in self._client.spoken):
            return parse_line(line)
        return {} if any(word in line for word in self._client.silent) else parse_line(line)

    def read(self, content: Mapping[str, Any], at: int, *, counts: bool = True) -> Iterator[turns.Spoken]:
        """Yield the turns that a line makes certain; if it `counts`, count its kind where that is not known."""
        kind = self._client.kind_of(content) if content and counts else ""
        if kind and kind not in self._client.kinds:
            if not self.unknown:
                self.unknown_at = at
            # The name is a file's: only what can be one is shown.
            self.unknown[kind if re.fullmatch(r"[\w$.:-]{1,60}", kind) and len(self.unknown) < _NAMES else "?"] += 1
        yield from self._lines.read(content, at)

    def rest(self, *, has_ended: bool) -> Iterator[turns.Spoken]:
        """Yield the turns that only the end of the lines makes certain."""
        yield from self._lines.rest(has_ended=has_ended)

    @property
    def waits_at(self) -> int | None:
        """Where the first line stands that a later one settles; None for none."""
        return self._lines.waits_at
