"""Say in the reader's language why a row of an import was rejected.

Checks write these sentences with values in them: "tags is missing." matches "{} is missing.", and the value is said
again by the same rules, so that "content must be {}, not {}." has both of its parts in German too.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

REASONS: Final = tuple(
    line for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines() if not line.startswith("#")
)
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
    """Return why a row was rejected as a language has it; as it is where no table has such a sentence."""
    if not messages or len(text) > _MOST_CHARS:
        return text
    for reason, pattern in _patterns():
        if found := pattern.fullmatch(text):
            return messages.get(reason, reason).format(*(say_reason(part, messages) for part in found.groups()))
    return text
