"""Find what a statement says that something was changed from: "moved from Vim to Zed", "replaced Vim with Zed". Pure.

A statement that still has the old one disagrees with it. English, and "von ... auf ..." in German.
"""

from collections.abc import Sequence, Set
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

    `of`: the keys of what was changed, and for what; a statement without one of them may be of another thing.
    """

    old: frozenset[str]
    new: str
    start: int
    of: frozenset[str]

    def place_in(self, words: Sequence[StatedWord], tokens: frozenset[str]) -> int | None:
        """Return the place of the last word of what was, where a statement says that it is; None where none does."""
        keys = {word.key for word in words}
        if not self.old <= keys or self.new in keys or tokens.isdisjoint(_STATES) or not tokens.isdisjoint(_PAST):
            return None
        if self.of - keys - (_PRICE if "costs" in tokens else frozenset()):
            return None
        at = max(place for place, word in enumerate(words) if word.key in self.old)
        return None if words[at].before in _ORIGIN else at

    def is_taken_back_by(self, keys: frozenset[str], tokens: frozenset[str]) -> bool:
        """Say whether a later statement of the same text may tell that it is as it was."""
        return not tokens.isdisjoint(_BACK) or (self.old <= keys and tokens.isdisjoint(_PAST))


# What changes; "went from Leith to Porto" is a journey.
_CHANGES: Final = lists.set_of(
    "moved moves switched switches changed changes migrated renamed upgraded downgraded raised lowered "
    "increased decreased reduced cut dropped rose fell grew shifted converted transferred swapped ported postponed "
    "delayed extended shortened replaced replaces gewechselt wechselte umgestellt umgezogen gezogen umbenannt verlegt "
    "verschoben migriert erhöht gesenkt gestiegen gesunken verlängert verkürzt"
)
_STATES: Final = (lists.ONE_VALUE | lists.VERBS | lists.ONCE) - lists.set_of(
    "was were had did moved born"
) | lists.set_of(
    "ist sind wohnt lebt liegt heißt kostet beträgt läuft nutzen nutzt verwenden verwendet benutzen benutzt steht"
)
_PAST: Final = lists.set_of("was were had until war waren hatte hatten bis")
_ORIGIN: Final = ("from", "aus", "born")
_FILL: Final = lists.set_of("der die das den dem ein eine unser unsere unseren wir ich im am um in über seit")
_HAVE_VON: Final = lists.set_of("hat haben habe bin wurde wurden von")
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
# It is to come, or was taken back; "May" is a month.
_NOT_SO: Final = compile_late(
    r"\b(?:will|shall|may|can|wants|wanted|plans|planned to|hopes|hoped|going to|about to|to be|[Nn]ext|[Tt]omorrow"
    r"|wird|werden?|soll|sollen|wollen|back|zurück)\b|['\u2019](?:ll|d)\b"
)
_BACK: Final = lists.set_of("back zurück")
_TIMES: Final = ("date", "time")
_FOR: Final = compile_late(r" (?:for|in|on|at|für|bei) ")
_PRICE: Final = frozenset(("pric",))  # the key of "price", of which "costs" says it


def find_change(part: str, words: Sequence[StatedWord], tokens: set[str], start: int) -> StatedChange | None:
    """Return what a statement says that was changed; None where it says nothing of it.

    `words` and `tokens` are those of its text, which stands at `start` of its sentence.
    """
    if tokens.isdisjoint(_CHANGES) or _NOT_SO.search(part):
        return None
    for form in _FORMS:
        if (found := form.search(part)) is not None:
            was, begin = found.span(1), found.start(2)
            old = [word for word in words if was[0] <= word.start - start < was[1] and word.plain not in _FILL]
            later = [word for word in words if word.start - start >= begin]
            keys = frozenset([word.key for word in old])
            if not old or not later or later[0].key in keys or keys <= {word.key for word in later}:
                return None
            purpose = _FOR.search(part, begin)
            end = start + (len(part) if purpose is None else purpose.end())
            after = [
                word for word in later if word.start >= end and (word.kind not in _TIMES or word.key in lists.DAYS)
            ]
            before = [word for word in words if word.start < old[0].start]
            return StatedChange(
                keys, later[0].key, old[0].start, _find_thing(before, tokens) | subject_of(after, tokens)
            )
    return None


def _find_thing(before: Sequence[StatedWord], tokens: set[str]) -> frozenset[str]:
    """Return the keys that tell what was changed, by the words before what was: not who alone changed it, nor when."""
    if "von" in tokens:
        before = [word for word in before if word.plain not in _HAVE_VON]
    verb = next((at for at, word in enumerate(before) if word.plain in _CHANGES), len(before))
    subject = subject_of(before[_count_when(before) : verb], tokens)
    thing = subject_of([word for word in before[verb:] if word.plain not in _CHANGES], tokens)
    return thing if len(subject) == 1 and thing - _PRICE else subject | thing


def _count_when(words: Sequence[StatedWord]) -> int:
    """Count the words at the beginning that tell when it was: "in July", "last spring"."""
    if not words:
        return 0
    if not words[0].before and words[0].plain == "last":
        return 2
    return int(words[0].plain in lists.TODAY or (words[0].kind == "date" and words[0].before in _WHEN))


def subject_of(words: Sequence[StatedWord], tokens: Set[str]) -> frozenset[str]:
    """Return the keys that tell what a statement is of: no states, units, words of grammar, nor when it was decided."""
    is_decision = not tokens.isdisjoint(_DECIDED)
    telling = (word for word in words if word.plain not in _SAY_NOTHING and word.key not in _UNITS)
    return frozenset([word.key for word in telling if not (is_decision and word.kind == "date")])


_WHEN: Final = lists.set_of("in on since im am seit")
_UNITS: Final = frozenset(lists.UNITS.values())
_DECIDED: Final = lists.set_of("decided agreed chose")
_SAY_NOTHING: Final = (
    _FILL
    | _STATES
    | _DECIDED
    | lists.PARTICLES
    | lists.set_of("day days week month year hour time away recently finally")
)
