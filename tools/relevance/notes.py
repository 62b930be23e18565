"""Long notes and what is asked of one of their sections: notes.txt, of own making; bench/known_sets.jsonl judges.

A note begins with `# name | form | first line`; a line `? query | answer` asks of the section before it, a line
`!? query` asks what the note does not say. In the form `markdown` and `plain` the first line of a section is its title.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from tools.relevance import fillers

FILE: Final = Path(__file__).with_suffix(".txt")
KEY: Final = "note"
# Characters that a note is padded to, and memories that stand around it.
FORMS: Final = ((0, 10), (0, 60), (6_000, 60), (27_000, 60), (0, 1_000), (6_000, 1_000))
_SKIPPED: Final = 40  # texts that stand around other worlds' homes first


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A note: its sections, queries with the words that answer them, and queries that nothing in it answers."""

    name: str
    form: str
    title: str
    sections: tuple[str, ...]
    asked: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]

    def text(self, chars: int = 0) -> str:
        """Return the note, each section with sentences of other topics around it up to about so many characters."""
        room = max(0, chars - sum(map(len, self.sections))) // len(self.sections)
        others = iter(fillers.texts(_SKIPPED + len(self.sections) + chars // 20)[_SKIPPED:])
        parts = [self.title]
        for section in self.sections:
            heading, _, said = section.partition("\n") if "\n" in section else ("", "", section)
            before, after = ([next(others)], [next(others)]) if room else ([], [])
            while len(" ".join((*before, *after))) < room:
                (before if len(before) <= len(after) else after).append(next(others))
            said = " ".join([*before, said, *after])
            parts.append(f"{heading}\n{said}" if heading else said)
        return ("\n" if self.form == "minutes" else "\n\n").join(parts)


@cache
def notes() -> tuple[Note, ...]:
    """Return the notes of the file."""
    return tuple(_read(block) for block in FILE.read_text(encoding="utf-8").split("\n\n"))


def _read(block: str) -> Note:
    head, *lines = block.strip().splitlines()
    name, form, title = head.removeprefix("# ").split(" | ")
    said = [line for line in lines if not line.startswith(("? ", "!? "))]
    pairs = (line[2:].rpartition(" | ") for line in lines if line.startswith("? "))
    return Note(
        name=name, form=form, title=title, sections=tuple(_sections(said, titled=form in ("markdown", "plain"))),
        asked=tuple((query, answer) for query, _, answer in pairs),
        unknown=tuple(line[3:] for line in lines if line.startswith("!? ")),
    )  # fmt: skip


def _sections(lines: list[str], *, titled: bool) -> Iterator[str]:
    for place in range(0, len(lines), 2 if titled else 1):
        yield "\n".join(lines[place : place + (2 if titled else 1)])
