"""Sections of pages that commands write: between two remarks, which name the command."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Generated:
    """The section that a command, `python -m <name> --write`, writes."""

    name: str

    @property
    def begin(self) -> str:
        """The remark before it."""
        return f"<!-- {self.name}: begin (written by `python -m {self.name} --write`, never by hand) -->"

    @property
    def end(self) -> str:
        """The remark after it."""
        return f"<!-- {self.name}: end -->"

    def replaced(self, page: str, new: str) -> str:
        """Return the page with the section replaced; raises ValueError when it has no place for one."""
        before, begin, rest = page.partition(self.begin)
        _, end, after = rest.partition(self.end)
        if not (begin and end):
            raise ValueError(f"the page lacks {self.begin} or {self.end}")
        return before + new + after

    def within(self, page: str) -> str:
        """Return the section of a page, remarks included."""
        return page[page.index(self.begin) : page.index(self.end) + len(self.end)]
