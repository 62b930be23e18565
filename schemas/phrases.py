"""Pieces of sentences: "1 memory", "2 memories", "weight, valid_from and properties"."""

from collections.abc import Sequence
from typing import Final

# What to do about a message that is too large.
SMALLER: Final = "Send it in smaller parts; for a file of many memories there is `engramq import`."


def count_of(number: int, one: str, several: str = "") -> str:
    """Return so many of a thing; without a plural of its own the word gets an s."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def memories(number: int) -> str:
    """Return so many memories."""
    return count_of(number, "memory", "memories")


def all_of(words: Sequence[str]) -> str:
    """Return words as a list in a sentence."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
