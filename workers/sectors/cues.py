"""Numbers read off the wording of a text: what the embedding, which averages meaning, blurs most.

Knows: tense, person, imperatives, joints of a sentence, and the lists of `cue_words`. Refuses to know: vectors,
sectors, weights. Pure: the same text gives the same row everywhere.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engramq.workers.sectors import cue_words

Cues: TypeAlias = NDArray[np.float32]

# Cues describe short texts; of a long one the beginning says enough and bounds the cost.
_CHARACTERS = 2_000
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_BEFORE_IMPERATIVE: Final = frozenset(("always", "never", "don't", "first", "then", "please", "finally"))
_CLAUSE: Final = re.compile(r"[.;:,!?–—]|\b(?:and|then|or|but)\b")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_REACTION: Final = re.compile(rf"\W*(?:{cue_words.REACTION})\b", re.IGNORECASE)
_FIRST: Final = re.compile(r"\b(?:i|me|my|we|us|our)\b", re.IGNORECASE)
_LISTED: Final = re.compile(r"(?m)^[ \t]*(?:\d+[.)]|[-*#])\s")
_SMILE: Final = re.compile(r"[:;]-?[)(dp]|[\U0001F300-\U0001FAFF]|\b(?:lol|haha)")
_CODE: Final = re.compile(r"```|[{}=<>]|\(\)|\b(?:def|select|import|return)\b")


class _Text:
    """A text cut up once for all cues."""

    def __init__(self, content: str) -> None:
        self.raw = content[:_CHARACTERS]
        self.lower = self.raw.lower().replace("’", "'")
        self.words = _WORD.findall(self.lower)
        self.present = frozenset(self.words)
        self.count = max(1, len(self.words))
        self.sentences = [part for part in _SENTENCE.split(self.raw) if part.strip()]
        self.openers = [match.group() for part in _CLAUSE.split(self.lower) if (match := _WORD.search(part))]
        self.first = self.words[0] if self.words else ""
        self.endings = [part.rstrip()[-1] for part in self.sentences]


def _matches(pattern: str) -> Callable[[_Text], float]:
    compiled = re.compile(rf"\b(?:{pattern})\b")
    return lambda text: float(min(4, len(compiled.findall(text.lower))))


def _any(*listed: str) -> Callable[[_Text], float]:
    return lambda text: float(any(word in text.present for word in listed))


def _scaled_share(found: int, text: _Text) -> float:
    """One word in five is full weight: more of a kind than that says no more."""
    return min(1.0, 5.0 * found / text.count)


def _past(text: _Text) -> float:
    """Words that look like a past tense; a plain narrative is near 1."""
    found = sum(
        word in cue_words.IRREGULAR_PAST or (len(word) > 4 and word.endswith("ed") and not word.endswith("eed"))
        for word in text.words
    )
    return _scaled_share(found, text)


def _stative(text: _Text) -> float:
    return float(min(2, sum(word in cue_words.STATIVE_THIRD for word in text.words)))


def _imperative_clauses(text: _Text) -> float:
    return min(1.0, sum(word in cue_words.BASE_VERBS for word in text.openers) / max(1, len(text.openers)))


def _imperative_start(text: _Text) -> float:
    opening = [word for word in text.words[:2] if word not in _BEFORE_IMPERATIVE]
    return float(bool(opening) and opening[0] in cue_words.BASE_VERBS)


def _ending(sign: str) -> Callable[[_Text], float]:
    """Return the share of sentences that end with this sign."""
    return lambda text: text.endings.count(sign) / max(1, len(text.endings))


def _found(pattern: re.Pattern[str]) -> Callable[[_Text], float]:
    return lambda text: float(min(4, len(pattern.findall(text.lower))))


def _reactions(text: _Text) -> float:
    """The share of sentences that open like an answer to somebody."""
    return sum(_REACTION.match(part) is not None for part in text.sentences) / max(1, len(text.sentences))


def _telling(text: _Text) -> float:
    """How many sentences say something of whoever speaks: what is between a greeting and a question counts."""
    return float(
        min(
            3,
            sum(
                end != "?" and len(_FIRST.findall(part)) > 0 and part.count(" ") > 2
                for part, end in zip(text.sentences, text.endings, strict=True)
            ),
        )
    )


def _share(*listed: str) -> Callable[[_Text], float]:
    wanted = frozenset(listed)
    return lambda text: _scaled_share(sum(word in wanted for word in text.words), text)


def _names(text: _Text) -> float:
    inside = [word for part in text.sentences for word in _WORD.findall(part)[1:] if word[0].isupper() and word != "I"]
    return float(min(3, len(inside)))


CUES: Final[dict[str, Callable[[_Text], float]]] = {
    "past tense": _past,
    "present perfect": _matches(r"(?:have|has|'ve) (?:\w+ )?(?:been|\w+ed|become|got|grown|come|had|made|lost)"),
    "stative verb": _stative,
    "imperative clauses": _imperative_clauses,
    "imperative start": _imperative_start,
    "to do": lambda text: float(text.first == "to"),
    "time": _matches(cue_words.TIME),
    "story": _matches(cue_words.STORY),
    "steps": _matches(cue_words.STEPS),
    "feeling": _matches(cue_words.FEELING),
    # "was furious" is about the feeling even where the sentence tells a story.
    "feeling predicate": _matches(rf"(?:{cue_words.LINKING}) (?:\w+ ){{0,3}}(?:{cue_words.FEELING})"),
    "idiom": _matches(cue_words.IDIOM),
    "body": _matches(cue_words.BODY),
    "insight": _matches(cue_words.INSIGHT),
    "definition": _matches(cue_words.DEFINITION),
    "general": _matches(cue_words.GENERAL),
    "contrast": _matches(cue_words.CONTRAST),
    "I": _share("i", "me", "my", "myself", "i'm", "i've", "i'd", "i'll"),
    "we": _share("we", "us", "our", "ours", "ourselves", "we're", "we've"),
    "you": _any("you", "your", "yours"),
    "she, he": _any("she", "he", "her", "his", "him"),
    "they": _any("they", "them", "their"),
    "is": _any("is", "are", "ist", "sind"),
    "am": _any("am", "i'm"),
    "modal": _any("should", "must", "can", "will", "would", "could", "may"),
    "negation": _any("no", "not", "never", "nobody", "nothing", "can't", "don't", "couldn't", "won't", "cannot"),
    "condition": _any("if", "when", "whenever", "unless", "whoever"),
    "opens with an article": lambda text: float(text.first in ("a", "an")),
    "opens with the": lambda text: float(text.first == "the"),
    "opens with every": lambda text: float(text.first in ("every", "each", "all", "most", "only")),
    "opens with I or we": lambda text: float(text.first in ("i", "we", "my", "our", "i'm", "i've")),
    "the user": lambda text: float(text.lower.startswith(("the user", "user "))),
    "names": _names,
    "digits": lambda text: float(min(3, len(re.findall(r"\d+", text.raw)))),
    "questions": lambda text: float("?" in text.raw),
    "exclamations": lambda text: float("!" in text.raw),
    "semicolons": lambda text: float(";" in text.raw),
    "commas": lambda text: float(min(3, text.raw.count(","))),
    "words": lambda text: math.log2(text.count),
    # What tells talk from what is worth a sector.
    "asking": _ending("?"),
    "exclaiming": _ending("!"),
    "ends by asking": lambda text: float(text.endings[-1:] == ["?"]),
    "reactions": _reactions,
    "opens with a reaction": lambda text: float(_REACTION.match(text.raw) is not None),
    "telling": _telling,
    "addressed": _share("you", "your", "yours", "you're", "you've", "you'll", "you'd", "u", "ur"),
    "three words": lambda text: float(text.count <= 3),
    "six words": lambda text: float(text.count <= 6),
    "twelve words": lambda text: float(text.count <= 12),
    "thanks": _matches(cue_words.THANKS),
    "greeting": _matches(cue_words.GREETING),
    "cheering on": _matches(cue_words.CHEERING),
    "praise": _matches(cue_words.PRAISE),
    "comment": _matches(cue_words.COMMENT),
    "request": _matches(cue_words.REQUEST),
    "opens small": lambda text: float(text.raw.lstrip()[:1].islower()),
    "smile": _found(_SMILE),
    "code": _found(_CODE),
    "lines": lambda text: float(min(4, text.raw.count("\n"))),
    "listed": lambda text: float(_LISTED.search(text.raw) is not None),
}
NAMES: Final = tuple(CUES)
OF_TALK: Final = NAMES[NAMES.index("asking") :]


def cues(content: str) -> Cues:
    """Return float32 [len(NAMES)], one number of 0 to about 8 for each cue."""
    text = _Text(content)
    return np.array([cue(text) for cue in CUES.values()], dtype=np.float32)


def cue_rows(contents: Sequence[str]) -> Cues:
    """Return float32 [len(contents), len(NAMES)]."""
    return np.array([cues(content) for content in contents], dtype=np.float32).reshape(len(contents), len(NAMES))
