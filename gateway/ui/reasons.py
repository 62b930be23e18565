"""Say in the reader's language why something was refused, what to do then, and why a row of an import was rejected.

Checks write these sentences with values in them: "tags is missing." matches "{} is missing.". A quoted value stays
as it is, byte for byte. Only where a sentence has words of ours, "content must be {~}.", these are said by the same
rules. A text that is put together of several sentences is said sentence by sentence.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from engramq.schemas.contents import CUT
from engramq.schemas.sentences import sentences_of
from engramq.schemas.vocabulary import AuditAction, Origin

_OURS: Final = "{~}"
_LINES: Final = tuple(
    line for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines() if not line.startswith("#")
)
REASONS: Final = tuple(line.replace(_OURS, "{}") for line in _LINES)
# Details of why a memory is known, by what their values are: numbers, and words of ours.
_NUMBERS: Final = frozenset({"helped", "misled", "position", "signal", "usefulness", "weight"})
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "action": frozenset(AuditAction),
    "origin": frozenset(Origin),
}
_LAST: Final = "relation"  # the last of its line, see why.sql: its value may have commas too
DETAIL_WORDS: Final = ("kept by an agent", "kept on request", "unasked", "shown in 1 search", "shown in {} searches")
_SEARCHES: Final = re.compile(r"shown in (\d+) searches")
_NUMBER: Final = re.compile(r"-?\d[\d.e+-]*")
_CUT_OFF: Final = re.compile(rf",?{CUT}\Z")
_QUOTED: Final = re.compile(r"(['\"]).*\1", re.DOTALL)
_MARKED: Final = r'"(?:[^"\\]|\\.)*"'
_VALUE: Final = rf"(?>{_MARKED}|.).*?"  # one that begins with marks does not end within them
_MOST_CHARS: Final = 1000  # a longer text stays as it is: parts within parts take the square of its length


@cache
def _patterns() -> tuple[tuple[str, tuple[bool, ...], re.Pattern[str]], ...]:
    """Return the sentences, which of their parts are words of ours, and what matches each.

    Longer ones are first: "one of {} characters" before "one of {}".
    """
    by_words = sorted(_LINES, key=lambda line: (-len(line.replace(_OURS, "{}")), line))
    return tuple(_compile(line) for line in by_words)


def _compile(line: str) -> tuple[str, tuple[bool, ...], re.Pattern[str]]:
    reason, parts = line.replace(_OURS, "{}"), re.findall(r"\{~?\}", line)
    return reason, tuple(part == _OURS for part in parts), re.compile(_pattern_of(reason), re.DOTALL)


def _pattern_of(reason: str) -> str:
    """Return what matches a sentence. Words between two parts are where they come first, and are looked for once."""
    first, *words = map(re.escape, reason.split("{}"))
    ends = [f"({_VALUE}){each}" for each in words]
    return first + "".join(f"(?>{end})" for end in ends[:-1]) + "".join(ends[-1:])


def say_reason(text: str, messages: Mapping[str, str]) -> str:
    """Return a reason as a language has it: each sentence of it if all are known, else the whole, else some of them."""
    if not messages or len(text) > _MOST_CHARS:
        return text
    sentences = _join_quoted(sentences_of(text))
    said = [_say(sentence, messages) for sentence in sentences]
    in_parts = " ".join(said) if len(sentences) > 1 else text
    if in_parts != text and set(said).isdisjoint(sentences):
        return in_parts
    whole = messages.get(text) or _say(text, messages)
    return in_parts if whole == text else whole


def _join_quoted(sentences: list[str]) -> list[str]:
    """Return sentences, those within quotation marks as parts of the one that has the marks; a lone mark is none."""
    whole, joined, at, after = " ".join(sentences), list[str](), 0, 0
    within = [found.span() for found in re.finditer(rf"(?<!\w){_MARKED}", whole)]
    for sentence in sentences:
        after += len(sentence) + 1
        if not any(start < after < end for start, end in within):
            joined.append(whole[at : after - 1])
            at = after
    return joined


def _say(text: str, messages: Mapping[str, str]) -> str:
    for reason, ours, pattern in _patterns():
        if found := pattern.fullmatch(text):
            parts = zip(found.groups(), ours, strict=True)
            said = (
                _say(part, messages) if is_ours and not _QUOTED.fullmatch(part) else part for part, is_ours in parts
            )
            return messages.get(reason, reason).format(*said)
    return text


def say_details(text: str, messages: Mapping[str, str], memory: Mapping[str, object]) -> str:
    """Return the details of why a memory is known, "thread plan, position 3", as a language has them.

    The memory tells where its values end, since a thread may be named "Inbox, weight of things".
    """
    if not messages:
        return text
    rest = _CUT_OFF.sub("", text)
    said, cut_off = [], text[len(rest) :]
    while rest:
        end = _end_of_detail(rest, memory, is_cut=bool(cut_off))
        said.append(_say_detail(rest[:end], messages, memory))
        rest = rest[end:].removeprefix(", ")
    return ", ".join(said) + cut_off


def _end_of_detail(text: str, memory: Mapping[str, object], *, is_cut: bool) -> int:
    name = text.partition(" ")[0]
    if name == _LAST:
        return len(text)
    known = " ".join(f"{name} {memory.get(name)}".split()) if memory.get(name) else ""
    if known and (text == known or text.startswith(f"{known}, ")):
        return len(known)
    if is_cut and known.startswith(text):
        return len(text)
    return len(text.partition(", ")[0])


def _say_detail(detail: str, messages: Mapping[str, str], memory: Mapping[str, object]) -> str:
    if found := _SEARCHES.fullmatch(detail):
        return messages["shown in {} searches"].format(found[1])
    name, blank, value = detail.partition(" ")
    if detail in DETAIL_WORDS or (name == "new" and detail in messages):
        return messages[detail]
    if name in _WORDS and value in _WORDS[name]:
        word = value.replace("_", " ")
        return f"{messages[name]} {messages.get(word, word)}"
    is_named = name == _LAST or memory.get(name) or (name in _NUMBERS and _NUMBER.fullmatch(value))
    return f"{messages[name]} {value}" if blank and is_named and name in messages else detail
