"""Find where the sentences of a text begin. Pure; hooks import it."""

import re
from itertools import pairwise
from typing import Final

# Not compiled here: hooks have no millisecond to lose, and most texts are short.
_END: Final = r"[.!?\u2026\u3002\uff01\uff1f][\"')\]\u201d\u2019\u00bb]*(?:\s+|(?<=[\u3002\uff01\uff1f])(?=\S))"
_SHORTENED: Final = frozenset({"Dr", "Mr", "Mrs", "Ms", "St", "No", "vs", "ca", "bzw", "z.B", "e.g", "i.e"})
_SHORTENED_CHARS: Final = 5  # of the longest, with what it may stand in: "(e.g. this)"


def sentence_starts(text: str, start: int = 0, end: int | None = None) -> list[int]:
    """Return where the sentences of a text, or of this part of it, begin; `start` is the first.

    Neither an abbreviation ("Dr. Okafor") nor a letter of a name ("C. S. Lewis") ends one, nor a line.
    """
    end = len(text) if end is None else end
    ends = re.compile(_END).finditer(text, start, end)
    return [start, *(found.end() for found in ends if found.end() < end and not _is_shortened(text, found.start()))]


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text without the white space around them; each line is at least one."""
    return [
        sentence
        for line in text.splitlines()
        for first, after in pairwise([*sentence_starts(line), len(line)])
        if (sentence := line[first:after].strip())
    ]


def _is_shortened(text: str, at: int) -> bool:
    word = text[max(0, at - _SHORTENED_CHARS) : at].rpartition(" ")[2].lstrip("(\"'[")
    return text[at] == "." and (word in _SHORTENED or (len(word) == 1 and word.isalpha()))
