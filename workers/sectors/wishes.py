"""Recognise standing wishes ("always", "from now on", "I prefer") by wording and vector; numpy only.

It learned English alone; `forms` has those of some other languages. A question is never one.

Such a wish may stand in the middle of a long question, of which the vector knows the topic alone. So cues look at each
clause, and what they say is the most that any clause does.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engramq.schemas.patterns import compile_late
from engramq.workers.embedders.interface import Vectors
from engramq.workers.sectors.cues import BASE_VERBS, Cues
from engramq.workers.sectors.forms import ABOUT_ANSWERS, CONJUNCTIONS, only_asks, says_wish
from engramq.workers.sectors.model import Matrix, Standard, UnusableWeights, read_weights, with_intercept

WEIGHTS: Final = Path(__file__).parent / "wishes.npz"
# Chances from which a text counts as a wish: what is missed can be given by hand, what is wrong is told each time.
FULL_FROM: Final = 0.6
WORDING_FROM: Final = 0.8
_SCALE: Final = 0.3  # what one spread of a cue counts
_FURTHEST: Final = 3.0

_CHARACTERS: Final = 2_000
_WHO: Final = r"(?:i|we|(?:the )?(?:user|customer|client|team))"
_DO: Final = (
    rf"(?:{'|'.join(sorted(BASE_VERBS))}|address|assume|be|cite|confirm|do|highlight|have|limit|mention|prepare|provide|"
    r"quote|recommend|respond|round|say|schedule|start|state|structure|suggest|summari[sz]e|translate|truncate|"
    r"prioriti[sz]e|present|offer|refer|touch|rewrite|mock|apologi[sz]e|share|deliver|recommend)"
)
_ABOUT_ANSWERS: Final = (
    r"answers?|answering|repl(?:y|ies|ying)|respon(?:d|se|ses|ding)|explain|explanations?|summar(?:y|ies)|sentences?|"
    r"words|language|spelling|tone|formal|casual|concise|short|brief|bullet points?|tables?|emojis?|markdown|jargon|"
    r"format(?:ted)?|dates?|units?|metric|imperial|currency|tabs|spaces|indent\w*|commit messages?|comments?|code|"
    r"tests?|sources?|versions?|steps?|diff|english|german|french|spanish"
)
_LEAD: Final = (
    r"^\W*(?:(?:please|pls|also|and|so|but|ok|okay|oh|hey|btw|by the way|one more thing|just so you know|nice|great|"
    r"thanks|remember|rule|note|again|i need you to|i want you to|i'd like you to|"
    r"make sure(?: to| you)?|be sure to|(?:the )?user asked(?: you| me)? (?:to|that))\W+)*"
)
# Each is looked for in every clause, in lower case.
_OF_CLAUSES: Final[dict[str, str]] = {
    "prefers": (
        rf"\b{_WHO}(?:'d| would| do)?(?: \w+){{0,2}} prefers?\b|\band prefer\b|\b(?:my|user) preferences?\b|"
        rf"bevorzuge|mag lieber"
    ),
    "rather": rf"\b{_WHO}(?:'d| would) rather (?:have|see|you|that|keep|use|get)\b",
    "asks what is preferred": r"\b(?:do|does|did|would|which|what|if|who|people|most|some)\b[^,]* prefer",
    "always do": rf"{_LEAD}(?:always|never|ever|immer|nie) (?:\w+ly )?{_DO}\b",
    "you always": (
        r"\b(?:want|like|need|expect|asked?|should) (?:you |me )?(?:to )?(?:always|never)\b|^i (?:always|"
        r"never) (?:want|need|like) (?:my|the|to see|you|an?)\b"
    ),
    "always at the end": r",? (?:always|every time|each time|from now on|for good)\W*$",
    "habit": (
        r"\b(?:i|we|he|she|they|it|you|'ve|'s|'m|are|is|has|was|have|had|there's)(?: have| has|"
        r" had)? (?:always|never)\b"
    ),
    "from now on": (
        r"\b(?:from (?:now|here|today) on|from now|going forward|starting (?:today|now)|as of (?:today|now)|"
        r"henceforth|until (?:i say|further)|for all future|by default, \w+ \w+)\b|^\W*in (?:the )?future\b|"
        r"\bab jetzt|künftig"
    ),
    "when i ask": (
        r"\b(?:when|whenever|if|every time|each time) (?:i|we) (?:ask|say|write|send|share|mention|log|"
        r"request|talk)\b|\b(?:when|whenever|if) you (?:review|cite|explain|answer|write|suggest|reply|"
        r"are not sure)\b|\bwhenever (?:i|we)\b"
    ),
    "call me": r"\b(?:call me|address me|refer to me|my pronouns|calling me|to be called|nenn mich|duze)\b",
    "call me back": (
        r"\bcall me (?:when|tomorrow|later|back|at|on|crazy|if|about|after|every|tonight)\b|\bthey call me\b"
    ),
    "please do": (rf"\b(?:please|pls|bitte)(?: \w+ly)? (?:{_DO}|don't|do not|stop|always|never|remember|immer|nie)\b"),
    "do": rf"{_LEAD}{_DO}\b",
    "do not": (
        r"(?:^|\b(?:please|and|so|but) )(?:\W*)(?:don't|do not|dont|stop \w+ing|no \w+(?: \w+)?, please|"
        r"no (?:emojis|meetings|small talk))\b"
    ),
    "you": (
        r"\b(?:want|like|need|expect|rather) you\b|\bi (?:want|expect|need)(?: to see)? (?:all|every|my|only|"
        r"the test|answers|replies)\b|\bi'd like (?:all|my|replies|answers)\b|\b(?:i|user) (?:do not|does not|"
        r"don't|never) (?:want|like)\b"
    ),
    "i like my": r"\bi like (?:my|it when|to see|to be|to have)\b",
    "the user wants": (
        r"^\W*(?:the )?user(?:'s)? (?:\w+ ){0,2}(?:wants?|prefers?|likes?|dislikes?|asked|preference|"
        r"does not)\b"
    ),
    "chose": (
        r"\bi(?:'ve| have)? (?:chosen?|chose|decided) to (?:keep|use|stick|stay|pay|have|only)\b|\bi(?:'ve|"
        r" have)? (?:chosen|chose) \w+ (?:over|instead|rather)|\bstick to\b|\bso i avoid\b"
    ),
    "over": (
        r"\b(?:prefer|rather|like|chose|chosen|use|using|keep\w*)\b.{2,60}\b(?:over|instead of|rather than|"
        r"not|to \w+ing|than)\b"
    ),
    "once": (
        r"\b(?:tomorrow|today|tonight|yesterday|next (?:week|month|year)|for now|this (?:time|week|evening)|"
        r"below|the following|back then|last (?:week|year))\b"
    ),
    "past": r"\bpreferred\b|\bused to\b|\b(?:said|says|told|recommended|wrote) (?:to|me)\b",
    "others": (
        r"\b(?:he|she|they|it|\w+'s|my \w+|people|users|cats|some|many|most|teacher|boss|doctor|manual|recipe|"
        r"sign) (?:\w+ )?(?:prefers?|says?|said|wants?|never|always)\b"
    ),
    "asks": r"^\W*(?:how|what|why|which|when|where|who|do|does|did|is|are|can|could|should|would|will)\b",
    "about answers": rf"\b(?:{_ABOUT_ANSWERS})\b",
}
_PATTERNS: Final = tuple(compile_late(pattern) for pattern in _OF_CLAUSES.values())
_SPLIT: Final = compile_late(
    r"(?<=[.!?;:])\s+|\n+|\s-\s|,\s+(?=(?:and|but|so|please|can|could|how|what|which|i|when)\b)"
)
NAMES: Final = (*_OF_CLAUSES, "clauses", "only asks", "words", "acknowledges", "listed")
_ACKNOWLEDGES: Final = compile_late(
    r"\W*(?:got it|certainly|sure|understood|of course|absolutely|great choice|to \w+ \w+, |here (?:is|are)|"
    r"i'll|i will)\b"
)


def wish_cues(content: str) -> Cues:
    """Return float32 [len(NAMES)], one number for each cue."""
    text = content[:_CHARACTERS].lower().replace("’", "'")
    clauses = [part.strip() for part in _SPLIT.split(text) if part.strip()] or [""]
    found = [float(any(pattern.search(clause) for clause in clauses)) for pattern in _PATTERNS]
    asking = sum("?" in clause for clause in clauses)
    return np.array(
        [
            *found,
            np.log2(len(clauses)),
            float(asking == len(clauses)),
            np.log2(max(1, text.count(" "))),
            float(_ACKNOWLEDGES.match(text) is not None),
            float(any(sign in text for sign in ("**", "\n1.", "\n-", "###"))),
        ],
        dtype=np.float32,
    )


_GENERAL: Final = compile_late(rf"\b(?:{_ABOUT_ANSWERS}|{ABOUT_ANSWERS}|call me|address me|nenn mich)\b")
_CONDITIONAL: Final = compile_late(
    rf"\b(?:when|whenever|if|while|for|can you|could you|how|what|commits?|code|tests?|e?mails?|letters?|reports?|"
    rf"recipes?|advice|docs|files?|repos?|repositor(?:y|ies)|{CONJUNCTIONS})\b|\b(?:tabs|spaces|indent\w*)\b.* in \w"
)


def is_general(content: str) -> bool:
    """Say whether a wish is about how to answer, in whatever matter: such a one bears on every question."""
    text = content[:_CHARACTERS].lower()
    return _GENERAL.search(text) is not None and _CONDITIONAL.search(text) is None


def wish_cue_rows(contents: Sequence[str]) -> Cues:
    """Return float32 [len(contents), len(NAMES)]."""
    return np.array([wish_cues(content) for content in contents], dtype=np.float32).reshape(len(contents), len(NAMES))


class WishModel:
    """A regression on vector and cues, and one on cues alone, where the vector comes from another embedder."""

    def __init__(self, standard: Standard, weights: Matrix, wording: Matrix) -> None:
        """`weights` [dimensions + cues + 1], `wording` [cues + 1]: log odds, the intercepts last."""
        self._standard, self._weights, self._wording = standard, weights, wording

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> "WishModel":
        """Read the weights. Raises UnusableWeights."""
        file = read_weights(path)
        if tuple(file["cues"]) != NAMES:
            raise UnusableWeights(f"{path} was made for other cues: run python -m tools.sectors.wishes")
        return cls(Standard(file["mean"], file["spread"]), file["weights"], file["wording"])

    def save(self, path: Path = WEIGHTS) -> None:
        """Write what `load` reads; the same weights give the same bytes."""
        np.savez_compressed(
            path,
            cues=np.array(NAMES),
            mean=self._standard.mean,
            spread=self._standard.spread,
            weights=self._weights.astype(np.float32),
            wording=self._wording.astype(np.float32),
        )

    def are_wishes(self, contents: Sequence[str], vectors: Vectors | None) -> list[bool]:
        """Say of each text whether it is a wish; `vectors` [len(contents), dimensions] of the sectors' embedder."""
        least = WORDING_FROM if vectors is None else FULL_FROM
        return [
            (chance >= least or says_wish(content)) and not only_asks(content)
            for content, chance in zip(contents, self.chances(contents, vectors).tolist(), strict=True)
        ]

    def chances(self, contents: Sequence[str], vectors: Vectors | None) -> NDArray[np.float64]:
        """Return the chance of each text that it is a wish, [len(contents)]."""
        features = wish_features(wish_cue_rows(contents), self._standard, vectors)
        odds = with_intercept(features) @ (self._wording if vectors is None else self._weights)
        return np.asarray(1 / (1 + np.exp(-odds)))


def wish_features(rows: Cues, standard: Standard, vectors: Vectors | None) -> Matrix:
    """Return [n, dimensions + cues], or [n, cues] without vectors."""
    scaled = np.clip((rows - standard.mean) / standard.spread, -_FURTHEST, _FURTHEST) * _SCALE
    return np.concatenate([scaled] if vectors is None else [vectors, scaled], axis=1).astype(np.float64)
