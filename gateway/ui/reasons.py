"""Say in the reader's language why something was refused, what to do then, and why a row of an import was rejected.

Checks write these sentences with values in them: "tags is missing." matches "{} is missing.", and the value is said
again by the same rules, so that "content must be {}, not {}." has both of its parts in German too. A text that is put
together of several sentences is said sentence by sentence.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from engramq.schemas.sentences import sentences_of

REASONS: Final = tuple(
    line for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines() if not line.startswith("#")
)
# Details of why a memory is known whose values are words of ours too: others are as stored.
_OF_OUR_WORDS: Final = frozenset({"action", "new", "origin"})
DETAIL_WORDS: Final = ("kept by an agent", "kept on request", "unasked", "shown in 1 search", "shown in {} searches")
_SEARCHES: Final = re.compile(r"shown in (\d+) searches")
_MOST_CHARS: Final = 1000  # a longer text stays as it is: parts within parts take the square of its length


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the sentences with what matches each, longer ones first: "one of {} characters" before "one of {}"."""
    by_words = sorted(REASONS, key=lambda reason: (-len(reason), reason))
    return tuple((reason, re.compile(_pattern_of(reason), re.DOTALL)) for reason in by_words)


def _pattern_of(reason: str) -> str:
    """Return what matches a sentence. Words between two parts are where they come first, and are looked for once."""
    first, *words = map(re.escape, reason.split("{}"))
    return first + "".join(f"(?>(.+?){each})" for each in words[:-1]) + "".join(f"(.+?){each}" for each in words[-1:])


def say_reason(text: str, messages: Mapping[str, str]) -> str:
    """Return a reason as a language has it: each sentence of it if all are known, else the whole, else some of them."""
    if not messages or len(text) > _MOST_CHARS:
        return text
    sentences = sentences_of(text)
    said = [_say(sentence, messages) for sentence in sentences]
    in_parts = " ".join(said) if len(sentences) > 1 else text
    if in_parts != text and set(said).isdisjoint(sentences):
        return in_parts
    whole = messages.get(text) or _say(text, messages)
    return in_parts if whole == text else whole


def _say(text: str, messages: Mapping[str, str]) -> str:
    for reason, pattern in _patterns():
        if found := pattern.fullmatch(text):
            return messages.get(reason, reason).format(*(_say(part, messages) for part in found.groups()))
    return text


def say_details(text: str, messages: Mapping[str, str]) -> str:
    """Return the details of why a memory is known, "thread plan, position 3", as a language has them."""
    return ", ".join(_say_detail(detail, messages) for detail in text.split(", ")) if messages else text


def _say_detail(detail: str, messages: Mapping[str, str]) -> str:
    if found := _SEARCHES.fullmatch(detail):
        return messages["shown in {} searches"].format(found[1])
    name, blank, value = detail.partition(" ")
    if detail in DETAIL_WORDS:
        return messages[detail]
    if not blank or name not in messages:
        return detail
    word = value.replace("_", " ")
    return f"{messages[name]} {messages.get(word, value) if name in _OF_OUR_WORDS else value}"
