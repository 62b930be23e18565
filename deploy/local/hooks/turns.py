"""Turn what somebody said into a memory's content: take out what clients and hooks put in between."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

# Words of `schemas.vocabulary` and of faults that hooks need (importing them takes 12 ms; a test compares them).
UNTRUSTED: Final = "untrusted"
ARCHIVED: Final = "archived"
REJECTED: Final = "rejected"
VERIFIED: Final = ("verified", "approved")
INVALID: Final = "invalid_parameter"

USER: Final = "user"
ASSISTANT: Final = "assistant"
# Texts that look like a turn and are none.
SUBAGENT: Final = "subagent"
SUMMARY: Final = "summary"

# The marks around what hooks give to a model, by which it is known again and never captured.
RECALLED: Final = "engramq-recalled"
CAPTURED: Final = "engramq-captured"
# Texts that clients put into turns themselves: reminders, and notes of commands and their output.
_CLIENT_MARKS: Final = (
    "system-reminder|command-name|command-message|command-args|command-contents|local-command-stdout"
    "|local-command-stderr|local-command-caveat|bash-input|bash-stdout|bash-stderr|user-prompt-submit-hook"
    "|user_instructions|environment_context|turn_aborted|user_shell_command|task-notification|hook_context"
    "|session_context|ide_selection|ide_opened_file|teammate-message|cross-session-message|fork-boilerplate"
)
# Not compiled here: that takes a millisecond, and most events need none of them.
# Gemini CLI puts what hooks tell into marks of its own, with ours written in full.
_MARKED: Final = rf"(?s)(?:<|&lt;)({RECALLED}|{CAPTURED})(?:>|&gt;).*?(?:(?:<|&lt;)/\1(?:>|&gt;)|\Z)"
_PROVIDERS_MARKS: Final = "engramq-memories|memory-context"  # of integrations, which have the same rule
# A client puts them on lines of their own and always closes them: what is open, or within a line, somebody wrote.
_CLIENTS_OWN: Final = rf"[ \t]*<({_CLIENT_MARKS})(?: [^<>\n]*)?>"
# As a model may read one too: escaped, or with something between that cannot be seen.
_MARK_BEGUN: Final = (
    r"(?i)(?:[<\uff1c\ufe64]|&(?:amp;)*(?:lt|#0*60|#x0*3c);)"
    rf"(?=[^a-z<&]{{0,40}}(?:{RECALLED}|{CAPTURED}|{_PROVIDERS_MARKS}|{_CLIENT_MARKS}))"
)
_INVISIBLE: Final = r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]"
_NO_MARK: Final = "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"  # an escaped one is a mark to who reads transcripts
# Where a text is cut, the best places first; what a pattern finds ends the piece before.
_BOUNDARIES: Final = (
    r"\n\s*\n",  # paragraphs
    r"""[.!?…。！？]["'”’»)\]]*\s|[。！？]|\n""",  # sentences and lines
    r"\s",  # words
)
_TEXTS: Final = ("text", "Text", "input_text", "output_text")  # the last three are of Codex
_INTERRUPTED: Final = "[Request interrupted by user"
# Another form is no time that memories know; the turn is kept without it.
_MOMENT: Final = (
    r"(?a)(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?"
    r"(?:Z|[+-]\d\d:\d\d)?"
)


class Turn(NamedTuple):  # a dataclass takes 7 ms to import
    """One turn of a conversation. `key` is the same each time that it is read; `moment` is as the client wrote it.

    `position`: its place in its session, of clients that write no time.
    """

    key: str
    speaker: str
    text: str
    moment: str = ""
    position: int | None = None


class SessionFacts(NamedTuple):
    """Facts in a line about its whole session: its id, the folder that it is in, and whether a subagent holds it.

    `began`: when, of clients that write no time of a turn.
    """

    session: str = ""
    folder: str = ""
    is_subagent: bool = False
    began: str = ""


class Spoken(NamedTuple):
    """A turn, and where it stands: a line's number or where it ends in bytes, as its reader counts."""

    turn: Turn
    line: int = 0


class LineReader:
    """Reads the lines of one transcript in their order: what one says may hang on those before it."""

    def __init__(self, turn_of: Callable[[Mapping[str, Any]], Turn | None]) -> None:
        self._turn_of = turn_of

    def read(self, line: Mapping[str, Any], at: int) -> Iterator[Spoken]:
        """Yield the turns that a line makes certain."""
        turn = self._turn_of(line)
        if turn is not None:
            yield Spoken(turn, at)

    @property
    def waits_at(self) -> int | None:
        """Where the first line stands that a later one settles; None for none."""
        return None

    def rest(self, *, has_ended: bool) -> Iterator[Spoken]:  # noqa: ARG002 - for readers that hold back
        """Yield the turns that only the end of the lines makes certain; `has_ended`: the session has ended, too."""
        return iter(())


class ClientFormat(NamedTuple):
    """A client whose events and transcripts are understood.

    `reader` makes the reader of one transcript. `spoken`: each line with a turn has one of these texts; `silent`: a
    line with one of these has none, unless it has one of the others too. `kind_of` returns the name of a line's kind,
    which is in `kinds` if this version knows it. `event_names`: how events are called that it names otherwise than
    Claude Code. `is_ours` knows a line of the client again. `unspoken` returns SUBAGENT or SUMMARY for a line that
    holds what only looks like a turn. `folder`: where sessions lie below the user's, in which of its `parts`, and the
    `variable` that moves it; `file_names`: a pattern of their names there. `folder_file`, seen from there, names the
    folder that they were held in: as a text, in an object that `facts_of` reads, or in a list of such by their sessions
    ({}: the name of the session's file up to its first dot). `file_tools`: its tools that read or change files, with
    the parameter that names the file or holds a patch. `restarts`: whether a compaction starts a session once more.
    `from_start`: a turn hangs on all those before it, so that a transcript is read from its beginning.
    """

    name: str
    reader: Callable[[], LineReader]
    spoken: tuple[bytes, ...]
    silent: tuple[bytes, ...]
    kinds: frozenset[str]
    is_ours: Callable[[Mapping[str, Any]], bool]
    facts_of: Callable[[Mapping[str, Any]], SessionFacts]
    variable: str
    folder: str
    parts: tuple[str, ...]
    file_names: str
    kind_of: Callable[[Mapping[str, Any]], str] = lambda line: text_at(line, "type")
    unspoken: Callable[[Mapping[str, Any]], str] = lambda _: ""
    event_names: Mapping[str, str] = {}
    file_tools: Mapping[str, str] = {}
    restarts: bool = True
    from_start: bool = False
    folder_file: str = ""


def text_at(line: Mapping[str, Any], name: str) -> str:
    """Return the text of a member, "" where it has none."""
    value = line.get(name)
    return storable(value) if isinstance(value, str) else ""


def member(line: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object that a member is, an empty one where it is none."""
    value = line.get(name)
    return value if isinstance(value, dict) else {}


def make_turn(key: object, speaker: str | None, text: str, moment: object) -> Turn | None:
    """Return a turn; None where somebody or something is missing, or nothing is left of what was said."""
    if speaker is None or not isinstance(key, str) or not key or not (text := spoken_text(text)):
        return None
    return Turn(storable(key), speaker, text, moment_of(moment))


def storable(text: str) -> str:
    """Return a text as a memory can hold it: no NUL, and no half of a surrogate pair, which JSON may name."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def spoken_text(text: str) -> str:
    """Return what somebody said in a turn, as a memory can hold it: without what hooks and clients put in."""
    whole = storable(text)
    own = (_without_client_marks(re.sub(_MARKED, "", whole)) if "<" in whole or "&lt;" in whole else whole).strip()
    return "" if own.startswith(_INTERRUPTED) else own


def _without_client_marks(text: str) -> str:
    """Return a text without what clients put in, each mark looked for once, however many are never closed."""
    kept: list[str] = []
    at = 0
    open_for_good = set[str]()
    for first in re.finditer(rf"(?m)^{_CLIENTS_OWN}", text):
        if first.start() < at:
            continue
        end, opened = first.start(), re.compile(_CLIENTS_OWN).match(text, first.start())
        while opened is not None and opened[1] not in open_for_good:
            close = f"</{opened[1]}>"
            if (closed := text.find(close, opened.end())) < 0:
                open_for_good.add(opened[1])
                break
            end = closed + len(close)
            opened = re.compile(_CLIENTS_OWN).match(text, end)
        kept.append(text[at : first.start()])
        at = max(end, first.start())
    return "".join([*kept, text[at:]])


def moment_of(given: object) -> str:
    """Return a time as memories know it, "" for what is none."""
    return given if isinstance(given, str) and re.fullmatch(_MOMENT, given) else ""


def text_in(content: object) -> str:
    """Return the text of a message: not what tools were given and gave, nor pictures, nor thoughts."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else [content]
    # Gemini CLI gives what is spoken no type, and marks thoughts.
    texts = [
        block.get("text")
        if isinstance(block, dict) and block.get("type", "text") in _TEXTS and not block.get("thought")
        else block
        for block in blocks
    ]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def object_in(given: object) -> Mapping[str, Any]:
    """Return an object, also one that stands in a text as JSON; an empty one for anything else."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return {}
    return given if isinstance(given, dict) else {}


def join_answers(answered: Iterable[tuple[object, object]]) -> str:
    """Return each question that has an answer, with it: a text, or several."""
    lines: list[str] = []
    for question, answer in answered:
        several = answer if isinstance(answer, list) else [answer]
        if words := ", ".join(text for text in several if isinstance(text, str) and text.strip()):
            lines += [question if isinstance(question, str) else "", words]
    return "\n".join(lines).strip()


def wrap_in_mark(mark: str, text: str) -> str:
    """Return a text between a mark and its end; it cannot end it earlier."""
    return f"<{mark}>\n{text}\n</{mark}>"


def disarm(text: str) -> str:
    """Return a text on one line in which no mark can begin or end: ours, or a client's, within which it puts ours."""
    line = " ".join(text.split())
    if not any(bracket in line for bracket in "<&\uff1c\ufe64"):
        return line
    return re.sub(_MARK_BEGUN, _NO_MARK, re.sub(_INVISIBLE, "", line))


def split(text: str, most: int) -> Iterator[str]:
    """Yield a text in pieces of at most so many characters, without the white space around each.

    Each ends with a paragraph, sentence or line if one ends in its second half, else with a word, else anywhere. So no
    key is cut in two, of which neither half would be recognised.
    """
    text = text.strip()
    while len(text) > most:
        end = _end(text, most)
        if piece := text[:end].rstrip():
            yield piece
        text = text[end:].lstrip()
    if text:
        yield text


def _end(text: str, most: int) -> int:
    for boundary in _BOUNDARIES:
        ends = [found.end() for found in re.compile(boundary).finditer(text, most // 2, most)]
        if ends:
            return ends[-1]
    return most
