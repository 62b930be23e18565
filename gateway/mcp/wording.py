"""Texts that name only tools which their reader has: a sentence that names another is left out.

Pure, and cheap for a reader who has every tool. Texts write the word of a tool (connect, guide) for the tool alone.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

# The end of a sentence; "e.g." and "i.e." end none.
_BETWEEN: Final = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)\s+")
_OR: Final = "Or "  # begins no text: what it was the other way to may be left out
_WORDED: Final = frozenset({"recovery", "hint", "notice", "rest"})  # what a reply tells its reader to do
# Where replies hold refusals and other replies. What callers wrote stays as it is, whatever its keys are called.
_WITHIN: Final = frozenset({"errors", "reply", "connect_result", "results", "resolved"})


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """Who reads: the names of the tools that they have, and of those they have not where these can be had."""

    tools: frozenset[str]
    elsewhere: Mapping[str, str]
    absent: re.Pattern[str] | None


def reader(tools: Collection[str], elsewhere: Mapping[str, str]) -> Reader:
    """Return the reader who has `tools`; `elsewhere` says of each further tool, in a sentence, where it can be had."""
    longest_first = sorted(elsewhere, key=len, reverse=True)
    absent = re.compile(rf"(?<![\w/@])(?:{'|'.join(longest_first)})(?!\w)") if longest_first else None
    return Reader(frozenset(tools), elsewhere, absent)


def kept(text: str, reader: Reader) -> str:
    """Return the text without the sentences that name a tool which the reader has not; perhaps nothing."""
    if reader.absent is None or reader.absent.search(text) is None:
        return text
    left = " ".join(sentence for sentence in _BETWEEN.split(text) if reader.absent.search(sentence) is None)
    return f"{left[len(_OR)].upper()}{left[len(_OR) + 1 :]}" if left.startswith(_OR) else left


def worded(text: str, reader: Reader) -> str:
    """Return the text as `kept` does, and where something was left out a sentence that says where it can be had."""
    if reader.absent is None:
        return text
    named = reader.absent.findall(text)
    if not named:
        return text
    sentences = (kept(text, reader), *dict.fromkeys(reader.elsewhere[name] for name in named))
    return " ".join(sentence for sentence in sentences if sentence)


def worded_body(body: dict[str, Any], reader: Reader) -> dict[str, Any]:
    """Return a reply whose recoveries, hints and notices name only tools that the reader has; the same if they do."""
    if reader.absent is None:
        return body
    changed = {name: new for name, value in body.items() if (new := _worded_part(name, value, reader)) is not value}
    return {**body, **changed} if changed else body


def _worded_part(name: str, value: Any, reader: Reader) -> Any:
    if isinstance(value, str):
        return worded(value, reader) if name in _WORDED else value
    if name not in _WITHIN:
        return value
    if isinstance(value, dict):
        return worded_body(value, reader)
    if isinstance(value, list):
        items = [worded_body(item, reader) if isinstance(item, dict) else item for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value
