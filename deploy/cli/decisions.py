"""Read the decisions of this project, docs/decisions, which the package brings: `engramq demo` fills a home with them.

An entry: `- 2026-11-22, superseded 2026-11-24 by "There is one database" (store). **A tenant lives in ...**: ...`
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import engramq

FOLDER: Final = Path(engramq.__file__).with_name("decisions")
_ENTRY: Final = re.compile(r"^- (\d{4}-\d\d-\d\d), (.+?)\. (\*\*.*(?:\n  .*)*)", re.MULTILINE)
_REPLACED: Final = re.compile(r"superseded ([\d-]+) by \"(.+)\" \((\w+)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Decision:
    """One entry. `by`: with what the text begins that stands in its place now, "" where nothing does."""

    page: str
    day: str
    text: str
    by: str = ""

    def record(self) -> dict[str, Any]:
        """Return it as import_memories takes it."""
        return {"content": self.text, "occurred_at": self.day, "tags": ["decision", self.page]}


def read_decisions(folder: Path = FOLDER) -> Iterator[Decision]:
    """Yield the entries of all pages, in the order of their days."""
    found = [decision for page in folder.glob("*.md") for decision in _entries(page)]
    yield from sorted(found, key=lambda decision: (decision.day, decision.page))


def _entries(page: Path) -> Iterator[Decision]:
    for day, status, text in _ENTRY.findall(page.read_text(encoding="utf-8")):
        replaced = _REPLACED.fullmatch(" ".join(status.split()))
        plain = " ".join(text.replace("**", "").split())
        yield Decision(replaced[3] if replaced else page.stem, day, plain, replaced[2] if replaced else "")


def supersessions(decisions: Sequence[Decision]) -> Iterator[tuple[int, int]]:
    """Yield (index of the old one, index of what stands in its place)."""
    for old, decision in enumerate(decisions):
        if decision.by:
            yield old, next(new for new, other in enumerate(decisions) if _stands_for(other, decision))


def _stands_for(other: Decision, decision: Decision) -> bool:
    return not other.by and other.page == decision.page and other.text.startswith(decision.by)
