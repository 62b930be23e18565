"""Regular expressions that are compiled by their first use, not as their module is loaded.

Hundreds of them took a seventh of the CPU of a worker's start, and a fifth of a gateway's. Most serve few calls.
"""

import re
from typing import Any, cast


class LatePattern:
    """It is used as the pattern that it becomes: each of its methods is looked up once."""

    def __init__(self, text: str, flags: int) -> None:
        self._made_of = text, flags

    def __getattr__(self, name: str) -> Any:
        pattern = re.compile(*self._made_of)  # which remembers the last ones
        found = getattr(pattern, name)
        setattr(self, name, found)
        return found


def compile_late(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return what does as `re.compile` returns it; what is wrong with the text is known at the first use."""
    return cast("re.Pattern[str]", LatePattern(text, flags))
