"""A text that is too long for one memory, in pieces: memories of one thread, in order."""

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import UNSET

from engramq.deploy.importing.identity import canonical, digest_of
from engramq.schemas import limits
from engramq.schemas.commands import ImportRecord

# Where a text is cut, the best places first; what a pattern finds ends the piece before.
_BOUNDARIES: Final = (
    re.compile(r"\n\s*\n"),  # paragraphs
    re.compile(r"""[.!?…。！？]["'”’»)\]]*\s|[。！？]|\n"""),  # sentences and lines
    re.compile(r"\s"),  # words
)


def pieces(values: dict[str, Any], rest: ImportRecord, namespace: str) -> Iterator[dict[str, Any]]:
    """Yield what a row with a long text says of each piece.

    All say what the row says. Their thread is the row's; where it has none, one that is made of its external_id, or
    of what it says, so that it is the same in another import. Positions count from the row's, or from 0. An
    external_id gets #1, #2 and so on behind it. `rest` is the checked row with another text.
    """
    content = values["content"]
    if rest.thread is not UNSET:
        thread = rest.thread
    elif rest.external_id is not UNSET:
        thread = f"split:{digest_of(namespace, rest.external_id).hex()}"
    else:
        thread = f"split:{digest_of(namespace, canonical(rest), content).hex()}"
    first = 0 if rest.position is UNSET else rest.position
    for number, piece in enumerate(split(content, limits.CONTENT_CHARS)):
        said = {**values, "content": piece, "thread": thread, "position": first + number}
        if rest.external_id is not UNSET:
            said["external_id"] = f"{rest.external_id}#{number + 1}"
        yield said


def split(text: str, most: int) -> Iterator[str]:
    """Yield a text in pieces of at most so many characters, without the white space around each.

    Each ends with a paragraph, else with a sentence or line, else with a word: whichever ends in the second half of
    what there is room for; else anywhere.
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
        ends = [found.end() for found in boundary.finditer(text, most // 2, most)]
        if ends:
            return ends[-1]
    return most
