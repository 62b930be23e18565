"""How long memories of a kind are kept, where nobody said otherwise of one."""

import re
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Final, NamedTuple

_RULE: Final = re.compile(r"(source_type|tag):(.{1,255})=(\d{1,5})([dh])", re.DOTALL)
_UNITS: Final = {"d": "days", "h": "hours"}


class Retention(NamedTuple):
    """One rule: a memory of this source type, or with this tag (the other is None), expires after so long."""

    source_type: str | None
    tag: str | None
    kept_for: timedelta

    def is_about(self, source_type: str | None, tags: Collection[str]) -> bool:
        """Say whether the rule is about a memory of this source type and with these tags."""
        return self.tag in tags if self.source_type is None else self.source_type == source_type


def parse_retention(text: str) -> tuple[Retention, ...]:
    """Return the rules in a text such as `source_type:research=30d, tag:scratch=12h`, the shortest first.

    Raises ValueError for any other text.
    """
    rules = []
    for part in filter(None, map(str.strip, text.split(","))):
        found = _RULE.fullmatch(part)
        if found is None or not found[2].strip() or not int(found[3]):
            raise ValueError("must be rules like source_type:research=30d or tag:scratch=12h, with commas")
        word, kept_for = found[2].strip(), timedelta(**{_UNITS[found[4]]: int(found[3])})
        of_source = found[1] == "source_type"
        rules.append(Retention(word if of_source else None, None if of_source else word, kept_for))
    return tuple(sorted(rules, key=lambda rule: rule.kept_for))


def kept_for(rules: Iterable[Retention], source_type: str | None, tags: Collection[str]) -> timedelta | None:
    """Return the time that the first rule about such a memory gives it, None where none is about it."""
    return next((rule.kept_for for rule in rules if rule.is_about(source_type, tags)), None)
