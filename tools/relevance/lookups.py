"""Homes of memories and what is asked of them, as agents ask: lookups.jsonl is for learning, bench/known.jsonl judges.

A line is a memory {"home", "key", "content"} or a query {"home", "query", "shape", "expects"}. A query of one of the
shapes HELD is answered by each memory that holds all its content words, those that stand around the home included.
Nothing answers the shapes UNANSWERED; a topic counts as known where a memory holds all its content words.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

LEARNED: Final = Path(__file__).with_suffix(".jsonl")
HELD: Final = ("keyword", "name", "identifier")
ANSWERED: Final = (*HELD, "half_sentence", "negation", "typo", "date", "question", "prompt")
UNANSWERED: Final = ("unrelated_prompt", "unknown", "near_miss")
SHAPES: Final = (*ANSWERED, *UNANSWERED)
SHORT: Final = 4  # letters of a word whose capitals tell it from another: Go, VAT
_EMPTY: Final = (
    "a about an and are as at be by can did do does for from go had has have how i in is it its me my no not of on or "
    "our over she he that the their then there they this to was we were what when where which who whose why will with "
    "you your"
)
EMPTY: Final = frozenset(_EMPTY.split())


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """A query, its shape, and the keys of the memories of its home that answer it."""

    home: str
    query: str
    shape: str
    expects: tuple[str, ...]


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """Memories by their keys, and what is asked."""

    name: str
    memories: dict[str, str]
    asked: list[Lookup]


def homes(file: Path = LEARNED) -> list[Home]:
    """Return the homes of a file."""
    found: dict[str, Home] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        home = found.setdefault(row["home"], Home(name=row["home"], memories={}, asked=[]))
        if "query" in row:
            home.asked.append(msgspec.convert(row, Lookup))
        else:
            home.memories[row["key"]] = row["content"]
    return list(found.values())


def content_words(query: str) -> list[str]:
    """Return the words that carry meaning; all of them where none does."""
    words = [said.strip("?!,;:\"'") for said in query.removesuffix(".").split()]
    return [word for word in words if word.lower() not in EMPTY] or words


def holders(query: str, memories: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the keys of the memories, (key, content), that hold each content word of the query."""
    words = [(word.lower(), _pattern(word)) for word in content_words(query)]
    for key, content in memories:
        plain = content.lower()
        if all(word in plain and pattern.search(content) for word, pattern in words):
            yield key


@cache
def _pattern(word: str) -> re.Pattern[str]:
    """Return what finds a word as it is, or in the plural; a short one with capitals only so."""
    plural = "s?" if len(word) > SHORT and word[-1].isalpha() else ""
    exact = len(word) <= SHORT and word != word.lower()
    return re.compile(rf"(?<![^\W_]){re.escape(word)}{plural}(?![^\W_])", re.NOFLAG if exact else re.IGNORECASE)
