"""A handbook of 18 sections and the minutes of a meeting, made up, with questions and what their answers hold."""

import json
from itertools import cycle, islice
from pathlib import Path
from typing import Final

_TEXTS: Final = json.loads(Path(__file__).with_suffix(".json").read_text())
SECTIONS: Final[dict[str, str]] = _TEXTS["sections"]
FILLER: Final[list[str]] = _TEXTS["filler"]  # says nothing that is asked for
# Questions, each with a piece of its answer.
HANDBOOK: Final[list[tuple[str, str]]] = [(question, answer) for question, answer in _TEXTS["handbook"]]
MINUTES: Final[list[tuple[str, str]]] = [(question, answer) for question, answer in _TEXTS["minutes"]]


def handbook_of(chars: int) -> str:
    """Return the handbook with so much around its facts that it has about so many characters."""
    room = max(0, chars - sum(len(title) + len(text) for title, text in SECTIONS.items())) // len(SECTIONS)
    filler = cycle(FILLER)
    sections = []
    for title, text in SECTIONS.items():
        around = list(islice(filler, room // 75))
        half = len(around) // 2
        sections.append(f"## {title}\n\n{' '.join(around[:half])}\n\n{text}\n\n{' '.join(around[half:])}\n")
    return "# Handbook of the shop\n\n" + "\n".join(sections)


def minutes() -> str:
    """Return minutes of about 6,000 characters."""
    filler = cycle(FILLER)
    said = (f"{each} {' '.join(islice(filler, 8))}" for each in _TEXTS["said"])
    return "Minutes of 24 November 2026\nPresent: Tom, Lena, Priya, Ada\n\n" + "\n".join(said) + "\n"
