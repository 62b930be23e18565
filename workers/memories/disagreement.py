"""Say whether two texts say otherwise about the same thing, and which pieces of them do. No I/O.

Two statements disagree when they have the same words except in one place: another number, date or name there ("ends in
August", "ends in December"), the opposite ("on", "off"), or a "not" in one of them. Two such places are two things
("the build server has 16 GB", "the test server has 64 GB"), and what one of them only adds is no difference. Words of
which people make lists ("likes tea", "likes chess") contradict nothing. "I have never ..." is denied by what says that
it was done, and "moved from Vim to Zed" by what says that it is Vim (`stated_changes`). Negations, opposites and verbs
are those of English; numbers are those of any language.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from engramq.schemas.patterns import compile_late
from engramq.schemas.sentences import sentences_of
from engramq.workers.memories import disagreement_lists as lists
from engramq.workers.memories.exact_forms import are_same_values, join_groups
from engramq.workers.memories.stated_changes import StatedChange, StatedWord, find_change, subject_of

PIECE_CHARS: Final = 80
READ_CHARS: Final = 600  # of a text: what it says of a thing stands at its beginning; code and tables follow
LOOKED_AT_CHARS: Final = 4 * READ_CHARS  # of which code is left out
NOTE_CHARS: Final = 300  # of a text that is about one event or thing; in longer ones each sentence is
STATEMENTS: Final = 8  # of a text
DENIED: Final = 0.6  # of the words of "I have never ...", that are in what denies it
DONE: Final = 0.4  # the same, where what is done is among them
ADDED: Final = 3  # words at most that a statement has and the other has not
SHARED: Final = 3  # words at least that stand around another value
ROUND_ONE: Final = 3  # at least one word of so many stands around another value


_CODE: Final = compile_late(r"```.*?(?:```|\Z)", re.DOTALL)
_ENDS: Final = ".!?\u2026\u3002\"')"
_BREAK: Final = compile_late(
    r"[;|:]\s+|,\s+(?!\d{4}\b|like\b|such\b|or\b|nor\b)|\s+[\u2013\u2014-]\s+"
    r"|\s(?=(?:but|because|so|which|although|while|and)\s)",
    re.IGNORECASE,
)
_NAMED_VALUE: Final = compile_late(r"(\w+(?:[ -]\w+){0,3}):\s+(\S+(?: \S+){0,2})")
_MONTH: Final = "(?:" + "|".join(month.capitalize() for month in lists.MONTHS) + ")"
_TOKEN: Final = compile_late(
    rf"(?P<date>\d{{4}}-\d\d-\d\d\b|\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}\b(?:,?\s+\d{{4}}\b)?"
    rf"|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}}\b)?|{_MONTH}\b(?:\s+\d{{4}}\b)?)"
    r"|(?P<time>\b\d{1,2}:\d\d(?:\s?[ap]m\b)?|\b\d{1,2}\s?[ap]m\b)"
    r"|(?P<number>(?:(?<!\S)[-\u2212](?=[.\d]))?[$\u20ac\u00a3#]?(?:(?<![\w.])\.)?\d+(?:[.,]\d+)*(?:st|nd|rd|th)?(?![\w])%?)"
    r"|(?P<word>\w+(?:[.'\u2019/@+-]\w+)*)"
)


# Who was where, in the words in which people say so: "I have never been to Japan", "We went to Japan in May".
_VISIT: Final = compile_late(
    r"\b(\w+)(?:['\u2019](?:ve|s))? (?:(?:have|has|haven['\u2019]t|hasn['\u2019]t|never|also|just|already|once) )*"
    r"(?:(?:been|gone|went|flew|travell?ed|moved) to|(?:been|was|were|stayed|lived) in|visited"
    r"|(?:been|gone|went)(?= \w+ing\b)) (?:(?:the|an?) )?(\w+)",
    re.IGNORECASE,
)


@dataclass(slots=True, eq=False)
class Statement:
    """One statement of a text. `all`: every token, small. `not_at` and so on: how many words stand before that.

    `least`: how many words another one shares at least that disagrees with it; 0 where it says "never", see `_places`,
    or from what something was changed.
    """

    sentence: str
    words: tuple[StatedWord, ...]
    keys: frozenset[str]
    all: frozenset[str]
    negated: bool
    not_at: int | None
    never_at: int | None
    verb_at: int
    about: frozenset[str]  # the keys of all that the sentence affirms
    is_of_self: bool
    least: int
    change: StatedChange | None


class DifferingPieces(NamedTuple):
    """The two pieces in which an earlier and a later text speak of the same thing."""

    earlier: str
    later: str


class _StatedText(NamedTuple):
    """The statements of a text; `parts`: all of its sentences, questions and suppositions too."""

    statements: tuple[Statement, ...]
    keys: frozenset[str]
    parts: list[Statement]
    is_note: bool


def disagreement(earlier: str, later: str, *, same_speaker: bool = True) -> DifferingPieces | None:
    """Return the first pieces of two texts that say otherwise about the same thing; None when none do.

    Different speakers speak of different things when they speak of themselves.
    """
    if earlier == later:
        return None
    old, new = read_statement(earlier[:LOOKED_AT_CHARS]), read_statement(later[:LOOKED_AT_CHARS])
    common = old.keys & new.keys
    if not common:
        return None
    theirs = _candidates(new, common)
    for first in _candidates(old, common) if theirs else ():
        for other in theirs:
            both = first.keys & other.keys
            added = max(len(first.keys), len(other.keys)) - len(both)
            if same_speaker or not (first.is_of_self or other.is_of_self):
                places = _places(first, other, both) if both and added <= ADDED else None
                if places is not None:
                    mine, its = _anchors(old, first), _anchors(new, other)
                    if mine - its - first.keys and its - mine - other.keys:
                        places = None  # they are of two things: each has an anchor of its own beside where they differ
                places = places or _find_denied(first, other) or _find_changed(first, other)
                if places is not None and not are_same_values(first.sentence, other.sentence):
                    return DifferingPieces(_quote(first.sentence, places[0]), _quote(other.sentence, places[1]))
    return None


def _candidates(text: _StatedText, common: frozenset[str]) -> list[Statement]:
    """Return the statements of a text that may disagree with another which has these words too."""
    return [
        statement
        for statement in text.statements
        if (shared := len(statement.keys & common)) and (len(statement.keys) - shared <= ADDED or not statement.least)
    ]


def differ_in_one_place(first: Statement, other: Statement, shared: int) -> bool:
    """Say whether two statements may, by how many words they share, before words are looked at one by one."""
    parity, is_added = first.negated != other.negated, shared in (len(first.keys), len(other.keys))
    if parity or is_added:
        return parity and is_added
    are_opposites = not (first.all.isdisjoint(lists.OPPOSED) or other.all.isdisjoint(lists.OPPOSED))
    return are_opposites or _share_enough(first, other, shared)


def _read_text(text: str) -> _StatedText:
    found, said = list[Statement](), list[Statement]()
    if "```" in text:
        text = _CODE.sub("\n", text)
    wholes = sentences_of(text[:READ_CHARS])
    if len(wholes) == 1 and (named := _NAMED_VALUE.fullmatch(wholes[0])):  # "Rent: 950 EUR" says that it is
        value = _statement(f"{named[1]} is {named[2]}", f"{named[1]} is {named[2]}")
        value.sentence = wholes[0]
        return _StatedText((value,), value.keys, [value], is_note=True)
    for whole in wholes:
        sentence = whole.rstrip(_ENDS)
        asks = "?" in whole[len(sentence) :]
        parts = [part for part in _BREAK.split(sentence) if part.strip()]
        stated = [_statement(sentence, part) for part in (parts[:-1] if asks else parts)]
        about = _union([s.keys for s in stated if not s.negated])
        of_self = any(s.is_of_self for s in stated)
        for statement in stated:
            statement.about, statement.is_of_self = about, of_self
        said += stated
        found += [s for s in stated if s.words and s.all.isdisjoint(lists.UNREAL)]
        if len(found) >= STATEMENTS:
            break
    found = found[:STATEMENTS]
    keys = _union([each for s in found for each in ((s.keys,) if s.about is s.keys else (s.keys, s.about))])
    for at, statement in enumerate(said):
        if statement.change is not None and any(
            not later.negated and statement.change.is_taken_back_by(later.keys, later.all) for later in said[at + 1 :]
        ):
            statement.change = None
    return _StatedText(tuple(found), keys, said, len(text) <= NOTE_CHARS)


# To read a text takes 60 to 100 us, and what it states takes 35 to 55 bytes a character: up to 20 MB in all.
_read_note: Final = lru_cache(maxsize=1_024)(_read_text)
_read_longer: Final = lru_cache(maxsize=256)(_read_text)


def read_statement(text: str) -> _StatedText:
    """Return what a text states; questions, code and suppositions are left out."""
    return _read_note(text) if len(text) <= NOTE_CHARS else _read_longer(text)


def forget_texts() -> None:
    """Keep nothing of any text: one of them was erased."""
    for cache in (_read_note, _read_longer, _read):
        cache.cache_clear()


def _union(sets: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return all words of some sets; of one it is that set itself, which takes no memory."""
    return sets[0] if len(sets) == 1 else frozenset[str]().union(*sets)


def _anchors(text: _StatedText, statement: Statement) -> set[str]:
    """Return the keys that tell what a statement is of: all of its sentence, and whom, when and which of its note."""
    beside = [part for part in text.parts if part.sentence == statement.sentence]
    keys = {key for part in beside if len(part.keys) > 1 for key in part.keys}
    for part in text.parts if text.is_note else beside:
        keys.update(word.key for at, word in enumerate(part.words) if _is_anchor(part, at, word))
    return keys


def _is_anchor(part: Statement, at: int, word: StatedWord) -> bool:
    """Say whether a word is a number, a date or a name; a capital may only begin a sentence."""
    if word.kind == "word":
        return any(character.isdigit() for character in word.key)
    return word.kind != "name" or at > 0 or (part.verb_at == 1 and word.plain not in lists.OPPOSED)


def _statement(sentence: str, part: str) -> Statement:
    words: list[StatedWord] = []
    tokens = set[str]()
    before, negations, verb_at, not_at, never_at, at = "", 0, None, None, None, sentence.find(part)
    for match in _TOKEN.finditer(part):
        kind, raw = match.lastgroup or "word", match.group()
        plain, key, kind = _read(raw, kind)
        tokens.add(plain)
        if kind == "not":
            negations, not_at = negations + 1, len(words)
            tokens.add(f"{before} {plain}")
            if plain == "never" or (negations == 1 and plain.startswith("haven")):
                never_at = len(words)
        elif key and (plain not in lists.PARTICLES or before in lists.COPULA):
            words.append(StatedWord(key, kind, at + match.start(), before, plain))
        if verb_at is None and (
            plain in lists.VERBS or (words and raw.islower() and len(raw) > 3 and raw[-2:] in _ENDINGS)
        ):
            verb_at = len(words) - (1 if key and kind != "not" and plain not in lists.VERBS else 0)
        before = plain
    keys = frozenset([word.key for word in words])
    of_self = not tokens.isdisjoint(_SELF)
    place = 2 if verb_at is None else verb_at
    change = find_change(part, words, tokens, at)
    is_rare = never_at is not None or change is not None
    least = 0 if is_rare else max(len(keys) - ADDED, -(-len(keys) // ROUND_ONE), 2 if len(keys) == 1 else 1)
    negated, every = negations % 2 == 1, frozenset(tokens)
    return Statement(
        sentence, tuple(words), keys, every, negated, not_at, never_at, place, keys, of_self, least, change
    )


_SELF: Final = lists.set_of("i i'm i've i'd i'll me my we our us we've we're")
_ENDINGS: Final = lists.set_of("ed es ts ls ds ks ns rs ps")


@lru_cache(maxsize=20_000)
def _read(raw: str, kind: str) -> tuple[str, str, str]:
    """Return a token in small letters, what it is compared by ("" where it says nothing), and its kind."""
    plain = raw.lower().replace("\u2019", "'")
    if kind == "date":
        return plain, _date(plain), kind
    if kind == "time":
        hour, _, rest = plain.rstrip("apm ").partition(":")
        hours = int(hour) % 12 + 12 * ("pm" in plain) if "m" in plain else int(hour)
        return plain, f"{hours}:{rest or '00'}", kind
    if kind == "number":
        number = re.sub(r"\.00?$", "", join_groups(plain.lstrip("$\u20ac\u00a3#").rstrip("%stndrh")))
        number = number.replace("\u2212", "-")
        return (plain, f"{number}-?-?", "date") if re.fullmatch(r"(?:19|20)\d\d", plain) else (plain, number, kind)
    if plain in lists.NUMBERS:
        return plain, lists.NUMBERS[plain], "number"
    if plain in lists.NOT or plain.endswith("n't"):
        return plain, "", "not"
    name = plain.removesuffix("'s")
    if name in lists.DAYS:
        return plain, name, "date"
    if plain in lists.EMPTY and plain not in lists.OPPOSED:
        return plain, "", "word"
    is_name = raw[0].isupper() or any(character.isdigit() for character in raw)
    return plain, lists.UNITS.get(plain) or _stem(name), "name" if is_name else "word"


def _date(plain: str) -> str:
    if plain[:5].replace("-", "").isdigit() and len(plain) == len("2026-01-31"):
        return "-".join(str(int(part)) for part in plain.split("-"))
    month = next(number for number, name in enumerate(lists.MONTHS, 1) if name in plain)
    numbers = re.findall(r"\d+", plain)
    year = next((number for number in numbers if len(number) == 4), "?")
    day = next((str(int(number)) for number in numbers if len(number) <= 2), "?")
    return f"{year}-{month}-{day}"


def _stem(word: str) -> str:
    word = lists.IRREGULAR.get(word, word)
    for ending in ("ingly", "ings", "ing", "ed", "ies", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)] + ("y" if ending == "ies" else "")
            break
    return (word[:-1] if len(word) > 3 and (word[-1] == "e" or word[-1] == word[-2]) else word) or word


def _places(first: Statement, other: Statement, common: frozenset[str]) -> tuple[int, int] | None:
    """Return where two statements differ in the one place in which they may; None where they do not disagree.

    `common`: the keys of both.
    """
    if not differ_in_one_place(first, other, len(common)):
        return None
    if first.negated != other.negated:
        added = sum(word.key not in common for statement in (first, other) for word in statement.words)
        denial, affirmed = (first, other) if first.negated else (other, first)
        is_denied = denial.not_at is not None and not affirmed.keys.isdisjoint(
            word.key for word in denial.words[denial.not_at : denial.not_at + 1]
        )
        if is_denied and len(common) >= 2 and added <= min(ADDED, len(common)):
            return first.words[0].start, other.words[0].start
        return None
    mine, theirs = lone_places(first, other, common)
    if not mine or not are_other_values(first, other, mine, theirs):
        return None
    return first.words[mine[-1]].start, other.words[theirs[-1]].start


def lone_places(first: Statement, other: Statement, common: frozenset[str]) -> tuple[list[int], list[int]]:
    """Return where each of two statements has words that the other has not; nothing where that is no single place, or
    too much beside what both have. Each has such a word."""
    mine = [at for at, word in enumerate(first.words) if word.key not in common]
    if mine[-1] - mine[0] + 1 == len(mine):
        theirs = [at for at, word in enumerate(other.words) if word.key not in common]
        is_run = theirs[-1] - theirs[0] + 1 == len(theirs)
        if is_run and max(len(mine), len(theirs)) <= (ROUND_ONE - 1) * len(common):
            return mine, theirs
    return [], []


def _share_enough(first: Statement, other: Statement, shared: int) -> bool:
    return shared + len((first.all & other.all) - first.keys) >= SHARED


def are_other_values(first: Statement, other: Statement, mine: list[int], theirs: list[int]) -> bool:
    """Say whether what two statements have in one place are values of the same thing, of which it has one."""
    a, b = first.words[mine[-1]], other.words[theirs[-1]]
    single = len(mine) == len(theirs) == 1
    if single and frozenset((a.plain, b.plain)) in lists.OPPOSITES:
        return True
    if not _share_enough(first, other, len(first.keys & other.keys)):
        return False
    is_role = mine[0] == theirs[0] == 0 and _is_of_role(first) and _is_of_role(other)
    if mine[0] < first.verb_at or theirs[0] < other.verb_at:
        return is_role and a.kind == b.kind == "name"
    kinds = {statement.words[at].kind for statement, run in ((first, mine), (other, theirs)) for at in run}
    if not single and "word" in kinds:
        return False
    if a.kind == b.kind == "date":
        are_days = kinds <= {"date", "time"} and _dates_differ(a.key, b.key)
        return are_days and _is_when(first, mine[0]) and _is_when(other, theirs[0])
    if a.kind == b.kind and a.kind in ("number", "time"):
        if a.before in lists.NUMBERED or b.before in lists.NUMBERED or _next(first, mine) != _next(other, theirs):
            return False
        if "date" in kinds and kinds != {"date", "time"}:
            return False
        is_of_thing = not (_is_of_once(first) and _is_of_once(other)) if a.kind == "number" else _happens_once(first)
        if not first.all.isdisjoint(lists.TODAY) or not other.all.isdisjoint(lists.TODAY):
            return False
        # "We have 12 desks" is of us; a number that begins a statement is not of what follows.
        return bool(is_of_thing and first.words[mine[0]].before and other.words[theirs[0]].before)
    if {a.kind, b.kind} <= {"name", "word"}:
        return _has_one_value(first, a) and _has_one_value(other, b)
    return False


def _next(statement: Statement, places: list[int]) -> str:
    after = places[-1] + 1
    return statement.words[after].key if after < len(statement.words) else ""


def _is_of_role(statement: Statement) -> bool:
    """Say whether it is as "Ada is the lead": of what there is one."""
    words = _TOKEN.findall(statement.sentence)
    return len(words) > 2 and words[1][3] in lists.COPULA and words[2][3] in ("the", "my", "our")


def _dates_differ(first: str, other: str) -> bool:
    if "-" not in first or "-" not in other:
        return "-" not in first and "-" not in other  # days of the week
    return any(a != b for a, b in zip(first.split("-"), other.split("-"), strict=True) if "?" not in (a, b))


def _happens_once(statement: Statement) -> bool:
    return bool(
        statement.all & lists.ONCE_OR_NOW
        or (statement.all & lists.VERBS and not any(word.endswith("ed") for word in statement.all))
    )


def _is_when(statement: Statement, at: int) -> bool:
    """Say whether a date tells when a thing is that happens once: "is due on", not "is out of office on"."""
    if not _happens_once(statement):
        return False
    between = {word.plain for word in statement.words[statement.verb_at : at]}
    return bool(statement.all & lists.ONCE) or statement.all.isdisjoint(lists.COPULA) or between <= lists.SETS


def _is_of_once(statement: Statement) -> bool:
    """Say whether its number is of one time among many: "paid 20 euros", "showed 300 kWh", "the pulse is 80"."""
    if not statement.all.isdisjoint(lists.ONCE_OR_NOW):
        return not statement.all.isdisjoint(lists.MEASURED)
    if any(word in lists.IRREGULAR or (word.endswith("ed") and not word.endswith("eed")) for word in statement.all):
        return True
    if any(word.before in _I_HAVE and _DONE.fullmatch(word.plain) for word in statement.words):
        return True
    says_done = ("habe" in statement.all or statement.all >= _WE_HAVE) and statement.all.isdisjoint(_WE_ARE)
    return bool(says_done and statement.words[-1].kind == "word" and _GETAN.fullmatch(statement.words[-1].plain))


# "J'ai payé", "he pagado"; "ich habe ... gezahlt", at the end. "Hat" and "a" may stand before any noun.
_I_HAVE: Final = lists.set_of("j'ai avons he hemos")
_DONE: Final = compile_late(r"\w{2,}(?:é|ado|ido)")
_WE_HAVE: Final = lists.set_of("wir haben")
_WE_ARE: Final = lists.set_of("werde werden bin sind")
_GETAN: Final = compile_late(r"(?:ab|an|auf|aus|ein|mit|nach|vor|zu|zurück)?ge(?!samt)\w{2,}(?:t|en)")


def _has_one_value(statement: Statement, word: StatedWord) -> bool:
    if statement.all & lists.MANY_VALUES or not statement.all & lists.ONE_VALUE:
        return False
    if statement.all & {"use", "uses", "using"} and not statement.all & lists.COPULA:
        return "for" in statement.all
    return word.kind == "name" or word.before not in lists.COPULA or not statement.all.isdisjoint(lists.ONE_OF_A_KIND)


def _find_denied(first: Statement, other: Statement) -> tuple[int, int] | None:
    """Return the places of "never ..." and of what was done all the same; None where nothing denies it."""
    if first.never_at is None:
        if other.never_at is None:
            return None
        places = _find_denied(other, first)
        return None if places is None else (places[1], places[0])
    if other.negated or other.never_at is not None or first.is_of_self != other.is_of_self:
        return None
    denied = first.words[first.never_at :]
    keys = [word.key for word in denied]
    shared = other.about.intersection(keys)
    enough = DONE if keys and keys[0] in shared else DENIED
    needed = {word.key for word in denied if word.kind == "name"}
    if not first.is_of_self:
        needed.update(word.key for word in first.words[: first.never_at])
    are_enough = len(shared) >= max(2, enough * len(set(keys))) or _visits(first) & _visits(other)
    if not are_enough or not needed <= other.about or shared.isdisjoint(other.keys):
        return None
    return first.words[0].start, next(word.start for word in other.words if word.key in shared)


def _find_changed(first: Statement, other: Statement) -> tuple[int, int] | None:
    """Return the places of what something was changed from, and of what says that it is so; None where nothing does."""
    if first.change is None:
        if other.change is None:
            return None
        places = _find_changed(other, first)
        return None if places is None else (places[1], places[0])
    if other.change is not None or other.negated or first.negated:
        return None
    at = first.change.place_in(other.words, other.all)
    if at is None:
        return None
    about = subject_of(other.words, other.all) - first.change.old
    unknown, known = about - first.about, about & first.about
    # "Samir's editor is Vim": the value names what it is of, which who changes it need not say.
    is_named = len(unknown) == 1 and at == len(other.words) - 1 and other.words[at].before in lists.COPULA
    is_of_both = known or (first.is_of_self and other.is_of_self)
    if (unknown and not (is_named and known)) or not is_of_both:
        return None
    return first.change.start, other.words[at].start


def _visits(statement: Statement) -> set[tuple[str, str]]:
    """Return who it says, or denies, to have been where, by the keys of its words."""
    found = [(who.lower(), _stem(where.lower())) for who, where in _VISIT.findall(statement.sentence)]
    return {("i" if who == "we" else who, where) for who, where in found if where in statement.keys}


def _quote(sentence: str, place: int) -> str:
    """Return at most 80 characters of a sentence, with what stands at this place."""
    sentence = " ".join(sentence.split())
    if len(sentence) <= PIECE_CHARS:
        return sentence
    start = max(0, min(place - PIECE_CHARS // 2, len(sentence) - PIECE_CHARS + 1))
    start = sentence.rfind(" ", 0, start) + 1 if start else 0
    piece = sentence[start : start + PIECE_CHARS - 2]
    end = start + len(piece) == len(sentence)
    return ("\u2026" if start else "") + (piece if end else piece.rsplit(" ", 1)[0] + "\u2026")
