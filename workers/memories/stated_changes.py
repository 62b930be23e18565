"""Find what a statement says that something was changed from: "moved from Vim to Zed", "replaced Vim with Zed". Pure.

A statement that still has the old one disagrees with it. English, and "von ... auf ..." in German.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from engramq.schemas.patterns import compile_late
from engramq.workers.memories import disagreement_lists as lists


class StatedWord(NamedTuple):
    """A word that says something: what it is compared by, its kind, where it stands, and the token before it."""

    key: str
    kind: str
    start: int
    before: str
    plain: str


class StatedChange(NamedTuple):
    """The keys of what was, and where they stand in the text; `new`: the first key of what is now.

    `is_of_thing`: it says what was changed, not only that somebody did.
    """

    old: frozenset[str]
    new: str
    start: int
    is_of_thing: bool

    def place_in(self, words: Sequence[StatedWord], tokens: frozenset[str]) -> int | None:
        """Return the place of the last word of what was, where a statement says that it is; None where none does."""
        keys = {word.key for word in words}
        if not self.old <= keys or self.new in keys or tokens.isdisjoint(_STATES) or not tokens.isdisjoint(_PAST):
            return None
        at = max(place for place, word in enumerate(words) if word.key in self.old)
        return None if words[at].before in _ORIGIN else at


# What changes; "went from Leith to Porto" is a journey.
_CHANGES: Final = lists.set_of(
    "moved moves moving switched switches changed changes migrated renamed upgraded downgraded raised lowered "
    "increased decreased reduced cut dropped rose fell grew shifted converted transferred swapped ported postponed "
    "delayed extended shortened replaced replaces gewechselt wechselte umgestellt umgezogen gezogen umbenannt verlegt "
    "verschoben migriert erhöht gesenkt gestiegen gesunken verlängert verkürzt"
)
_STATES: Final = (lists.ONE_VALUE | lists.VERBS | lists.ONCE - {"moved", "born"}) - lists.set_of(
    "was were had did moved"
) | (
    lists.set_of(
        "ist sind wohnt lebt liegt heißt kostet beträgt läuft nutzen nutzt verwenden verwendet benutzen benutzt steht"
    )
)
_PAST: Final = lists.set_of("was were had until war waren hatte hatten bis")
_ORIGIN: Final = ("from", "aus", "born")
_FILL: Final = lists.set_of("der die das den dem ein eine unser unsere wir ich im am um in über seit")
_ARTICLE: Final = "(?:(?:the|an?|our|my|its|der|dem|den|das|die|unsere[rmn]?) )?"
_WAS_AND_IS: Final = rf"{_ARTICLE}(\S+(?: \S+){{0,2}}?) %s {_ARTICLE}(\S+)"
_FORMS: Final = tuple(
    compile_late(before + _WAS_AND_IS % between)
    for before, between in (
        (r"\b(?:from|von) ", "(?:over )?(?:to|onto|into|auf|nach|zum?|zur)"),
        (r"\breplace[ds] ", "(?:with|by)"),
        (r"\b", "(?:was|were|is|are|has been|have been) replaced (?:with|by)"),
    )
)


def find_change(part: str, words: Sequence[StatedWord], tokens: set[str], start: int) -> StatedChange | None:
    """Return what a statement says that was changed; None where it says nothing of it.

    `words` and `tokens` are those of its text, which stands at `start` of its sentence.
    """
    if tokens.isdisjoint(_CHANGES):
        return None
    for form in _FORMS:
        if (found := form.search(part)) is not None:
            was, begin = found.span(1), found.start(2)
            old = [word for word in words if was[0] <= word.start - start < was[1] and word.plain not in _FILL]
            new = next((word.key for word in words if word.start - start >= begin), None)
            keys = frozenset([word.key for word in old])
            if not old or new is None or new in keys:
                return None
            is_of_thing = any(word.start < old[0].start and word.plain not in _CHANGES for word in words)
            return StatedChange(keys, new, old[0].start, is_of_thing)
    return None


def subject_of(words: Sequence[StatedWord], tokens: frozenset[str]) -> frozenset[str]:
    """Return the keys that tell what a statement is of: no states, units, words of grammar, nor when it was decided."""
    is_decision = not tokens.isdisjoint(_DECIDED)
    telling = (word for word in words if word.plain not in _SAY_NOTHING and word.key not in _UNITS)
    return frozenset([word.key for word in telling if not (is_decision and word.kind == "date")])


_UNITS: Final = frozenset(lists.UNITS.values())
_DECIDED: Final = lists.set_of("decided agreed chose")
_SAY_NOTHING: Final = _FILL | _STATES | _DECIDED | lists.PARTICLES | lists.set_of("day days week month year hour time")
