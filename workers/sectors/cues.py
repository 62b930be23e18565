"""Count cues in the wording of a text, which an embedding blurs since it averages meaning. No I/O.

Knows: tense, person, imperatives, joints of a sentence, and lists of English words (for the most telling cues a few
German ones), each short enough to be read. Pure: the same text gives the same row everywhere.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engramq.schemas.patterns import compile_late

Cues: TypeAlias = NDArray[np.float32]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Bases of verbs that open an instruction. Nouns that often open a sentence (order, state, form) are left out.
BASE_VERBS: Final = _words(
    "add adjust agree aim allow answer append apply approve archive arrange ask assert assign attach attend avoid "
    "backup bake baste batch beat begin bend bind bisect bleed blend block boil book boot bring browse brush build "
    "bump burn buy cache calibrate call cancel carry catch change charge check cherry choose chop clean clear click "
    "climb clip clone close collect combine commit compare compile compose configure confirm connect consider "
    "convert cook copy count cover create cross crush curl cut dab debug defrost delete deliver deploy describe "
    "dial dice dig dilute dim disable discard disconnect divide double download drag drain draw dress drill drink "
    "drive drop dry dump duplicate ease eat edit eject email empty enable ensure enter erase escalate escape "
    "estimate exclude execute export extract face fasten feed fetch fill filter find finish fit fix flag flash flip "
    "flush focus fold follow force fork forward freeze fry gather generate get give glue grab grate grease greet "
    "grep grind grip group hand handle hang heat hide hit hold import include increase indent index inflate inform "
    "insert inspect install invert invite invoice issue join jump keep kill knead kneel knit knock label ladle lay "
    "leave let level lift light limit link lint list listen load lock log look loosen lower make mark mash mask "
    "match measure melt merge migrate mind mix mock mount move mulch name narrow navigate note notify obtain oil "
    "open overwrite pack page paint pair park pass paste pat pause pay peel pick pin pinch ping pipe place plan "
    "plant play plug point polish post pour prefer prefix preheat prepare press print probe prune pull pump purge "
    "push put quarantine quote raise read rebase rebuild record redirect reduce refactor refill refund register "
    "reheat reindex reinstall reject release reload remember remove rename renew repeat replace reply report "
    "request rerun reset restart restore retry return reverse revert review revisit revoke rewind rewrite ring "
    "rinse roll rotate round rub run salt sand sanitize save scale scan schedule score scrape screw scroll scrub "
    "seal search season select send separate serve set shake shape sharpen shift ship shoot show shut sieve sift "
    "sign silence simmer sit skim skip slice slide slow smooth soak sort sow speak specify spin split spray spread "
    "sprinkle squash squeeze stack stagger stand start stash stay steer step sterilise sterilize stick stir stop "
    "store strain strap stretch strip submit subscribe subtract support swap sweep switch tag take talk tap tape "
    "taste tell test thaw thread throttle throw tick tie tighten tilt toast toggle tow trace transfer transplant "
    "treat trigger trim truncate try tune turn twist type undo unfold uninstall unlock unpack unplug unscrew untie "
    "unzip update upgrade upload use vacuum validate ventilate verify visit wait walk warm wash watch water wear "
    "weed weigh wet whisk wind wipe wire work wrap write yank zip zoom"
)

# Past forms that do not end in -ed and are not also bases (put, cut, set, read say nothing about time).
IRREGULAR_PAST: Final = _words(
    "became began bent bit bled blew bought bound bred broke brought built burnt came caught chose clung crept "
    "dealt did drank dreamt drew drove dug fed fell felt fled flew flung forgave forgot fought found froze gave got "
    "grew ground had heard held hid hit hung kept knew laid lay leapt learnt led left lent lied lit lost made meant "
    "met mistook overcame overslept paid ran rang rewrote rode rose said sang sank sat saw sent shook shot shrank "
    "slept slid slit sold sought spent spoke sprang spun stank stole stood strode struck stuck stung swam swept "
    "swore swung taught thought threw told took tore trod understood undid was went wept were withdrew woke won "
    "wore wound wrote"
)

# Verbs that state a lasting relation when they stand in the present tense.
STATIVE_THIRD: Final = _words(
    "accepts allows applies belongs boils breeds carries closes coaches comes commutes connects consists contains "
    "costs covers dates denotes depends describes differs dissolves drinks drives eats ends exists expires faces "
    "feeds follows forms freezes grows guarantees handles has holds hosts houses includes keeps lasts lists lives "
    "measures melts needs offers opens owns pays permits plays prefers produces protects provides reads refers "
    "rejects remains reports requires returns runs sells serves ships sits sleeps speaks spends stands starts "
    "stores studies supports takes teaches trains travels turns uses wakes weighs works writes"
)

FEELING: Final = (
    r"feel(?:s|ing|ings)?|felt|happy|happily|happiness|sad|sadness|saddened|angry|anger|angrily|furious|rage|"
    r"enraged|afraid|fear|fears|fearful|scared|frighten\w*|terrif\w*|panic\w*|horrif\w*|anxi\w+|nervous\w*|"
    r"worr(?:y|ies|ied)|dread\w*|uneasy|stress(?:ed|ful)|overwhelm\w*|exhausted|burnt out|fed up|lonely|"
    r"loneliness|miserable|depress\w*|devastat\w*|heartbroken|gutted|grie(?:f|ving)|mourn\w*|"
    r"miss(?:es)? (?:him|her|you|them|my|our|the)|love[sd]?|ador(?:e|es|ed)|in love|hat(?:e|es|ed|red)|loath\w+|"
    r"resent\w*|bitter|jealous\w*|env(?:y|ious)|asham\w*|shame|guilt\w*|embarrass\w*|mortif\w*|humiliat\w*|"
    r"insult\w*|hurt(?:s|ful)?|betray\w*|disappoint\w*|frustrat\w*|annoy\w*|irritat\w*|impatien\w*|upset|proud|"
    r"pride|joy\w*|overjoyed|thrill\w*|excit\w*|delight\w*|elat\w*|glad|grateful|gratitude|thankful|reliev\w*|"
    r"relief|hopeful|optimis\w*|cheer(?:ful|y)|content|calm\w*|at peace|enthusias\w*|eager|giddy|amazed|amazing|"
    r"touched|moved to|nostalgi\w*|homesick|bored|boring|disgust\w*|shocked|mood|spirits|emotion\w*|demorali\w*|"
    r"discouraged|insecure|comfort\w*|awful|terrible|wonderful|angst|wütend|traurig|glücklich|stolz|einsam|freut|"
    r"freue|fühl\w*|verärgert|enttäuscht|genervt|liebe|hasse"
)

LINKING: Final = r"is|are|am|i'm|was|were|been|be|feels?|felt|seems?|sounded|became|gets?|makes?|made"

# Figures of speech for being fed up, moved or glad.
IDIOM: Final = (
    r"can't (?:stand|bear|take|face|stop|wait|bring|let|get over)|"
    r"couldn't (?:bear|stop|face)|(?:could|can) not (?:bear|stop|stand)|i'd rather|"
    r"sick (?:of|and tired)|end of (?:my|his|her) (?:tether|rope)|over the moon|cloud nine|ugh|oh no|please|"
    r"thank you|wonderful|on (?:pins|edge|eggshells)|burst|"
    r"sarcas\w+|lights? up|sinks?|sank|races|churn\w*|soft spot|at ease|"
    r"(?:keep|keeps) (?:checking|apologi[sz]ing|thinking)|begged|dare[sd]?|makes? (?:me|him|her|my|us)|"
    r"winced|groaned|cling\w*"
)

# Where feelings show when nobody names them.
BODY: Final = (
    r"hearts?|stomach|throat|chest|tears?|cry(?:ing)?|cried|sob\w*|wept|smil(?:e|es|ed|ing)|grin\w*|"
    r"laugh(?:s|ed|ing|ter)?|knees|hands|fists?|jaw|lips?|trembl\w*|shak(?:e|ing)|shiver\w*|flinch\w*|blush\w*|"
    r"goosebumps|chills|butterflies|breath|sigh\w*|swallow\w*|voice|eyes|face|scream\w*|shout\w*|yell\w*|"
    r"snap(?:s|ped|ping)|slam\w*|stare[sd]?|hug(?:s|ged)?|blood|skin|sleepless|awake|silence|speechless|sunshine|"
    r"cloud nine|guts?|nerves"
)

INSIGHT: Final = (
    r"reali[sz]\w+|understood|i (?:now )?understand|learn(?:ed|t)|lessons?|taught (?:me|us)|insights?|conclu\w+|"
    r"hindsight|retrospect|looking back|look back|thinking (?:back|about it)|reflect\w*|reflections?|takeaway|"
    r"take away|notic(?:e|ed|ing)|patterns?|it seems|suggests?|impl(?:y|ies)|infer\w*|root cause|discovered|"
    r"recogni[sz]e|i believe|we believe|i suspect|i think|convinced|come to (?:see|understand|reali[sz]e)|dawned|"
    r"tend to|i see (?:now|that)|turns out|the more|what i|what we|wonder\w*|perhaps|maybe|probably|"
    r"over the years|over time|used to|in common|theme|hypothes\w+|mistook|in the end|gelernt|lehre|erkannt|"
    r"klar geworden|im nachhinein|rückblickend|einsicht|vielleicht"
)

TIME: Final = (
    r"yesterday|today|tonight|tomorrow|this (?:morning|afternoon|evening|week|month|year)|(?:last|next) \w+|ago|"
    r"earlier|just now|(?:on|last|next|by|until) (?:mon|tues|wednes|thurs|fri|satur|sun)day\w*|"
    r"in (?:january|february|march|april|may|june|july|august|september|october|november|december)|"
    r"in (?:19|20)\d\d|at (?:noon|midnight|dawn|\d{1,2}(?:[:.]\d\d)?)|\d{1,2}:\d\d|remember (?:when|the time)|"
    r"when i was|"
    r"\d{1,2} (?:january|february|march|april|may|june|july|august|september|october|november|december)|gestern|"
    r"heute|morgen früh|vorgestern|letzte[nrs]?|nächste[nrs]?|vor \w+ (?:tagen|wochen|jahren)|"
    r"am (?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)|im (?:sommer|winter|frühling|herbst)"
)

# Joints of a story: what happened, then what happened.
STORY: Final = (
    r"while|before|after|when|until|then|because|so (?:i|we|the|they)|"
    r"and (?:\w+ed|went|came|got|gave|took|left|told|said|had)"
)

STEPS: Final = (
    r"first(?:ly)?|then|finally|next|afterwards|steps?|step \d|instructions?|how to|in order to|make sure|always|"
    r"never|be sure|don't|do not|before|once|otherwise|repeat|slowly|carefully|twice|schritt|anleitung|zuerst|"
    r"dann|danach|immer|klicken|drücken"
)

DEFINITION: Final = (
    r"(?:is|are) (?:an?|the|called|located|based|defined|known|regarded|about|closed|written)|means|stands? for|"
    r"refers? to|defined as|consists? of|there (?:is|are)|represents?|ist (?:ein|eine|der|die|das)|steht für|"
    r"bevorzugt|beträgt|heißt"
)

GENERAL: Final = (
    r"always|never|ever|every|each|whenever|most|mostly|usually|often|rarely|only|nobody|everyone|everybody|"
    r"nothing|anything|half|all|any|too"
)

CONTRAST: Final = (
    r"not|never|but|rather|instead|less|more|than|really|same|just|not the|without|though|as long as|even|why|"
    r"because|whether|still|wrong|right|mistake|better|worse|best|worst|harder|easier"
)

# How turns of a talk open that answer somebody.
REACTION: Final = (
    r"oh|ooh|aw+|wow|whoa|woah|haha\w*|hah|lol|yay|yes+|yeah|yep|yup|nope|no|sure|ok|okay|right|well|hmm+|great|good|"
    r"nice|cool|awesome|amazing|fantastic|brilliant|lovely|wonderful|perfect|exactly|absolutely|definitely|totally|"
    r"certainly|indeed|same|true|congrat\w*|cheers|thanks?|ty|thx|ta|sorry|glad|interesting|incredible|beautiful|"
    r"gorgeous|sounds|looks|way to go|keep|bye|hi|hey|hello|yo|hiya|morning|welcome|please|of course|gg|ugh|oof|ouch|"
    r"mm+|yum|nah|dang|damn|proud|best|happy|enjoy|see you|take care|you|that|so|what a|it's"
)

THANKS: Final = r"thanks?|thank you|thx|ty|cheers|appreciate\w*|grateful|welcome"

GREETING: Final = (
    r"hi|hey|hello|morning|bye|goodbye|talk (?:to you )?(?:soon|later)|see you|take care|good (?:night|evening)|"
    r"catch (?:up|you)|long time"
)

CHEERING: Final = (
    r"congrat\w*|proud of you|well done|good luck|way to go|keep (?:it up|going|up|pushing|at it)|"
    r"you(?:'ve| have)? got this|rooting|fingers crossed|best of luck|all the best|believe in"
)

PRAISE: Final = (
    r"awesome|amazing|fantastic|incredible|lovely|wonderful|gorgeous|beautiful|cool|great|sweet|cute|adorable|"
    r"impressive|inspiring|fun|exciting|delicious"
)

COMMENT: Final = r"that's|that is|that sounds|sounds|looks|what a|must (?:be|have)|so (?:sorry|happy for|glad|proud)"

REQUEST: Final = (
    r"(?:can|could|would|will) you|tell me|show me|give me|let me know|any (?:tips|ideas|plans|advice|suggestions)"
)

# Cues describe short texts; of a long one the beginning says enough and bounds the cost.
_CHARACTERS = 2_000
_WORD: Final = compile_late(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_BEFORE_IMPERATIVE: Final = frozenset(("always", "never", "don't", "first", "then", "please", "finally"))
_CLAUSE: Final = compile_late(r"[.;:,!?–—]|\b(?:and|then|or|but)\b")
_SENTENCE: Final = compile_late(r"(?<=[.!?])\s+")
_REACTION: Final = compile_late(rf"\W*(?:{REACTION})\b", re.IGNORECASE)
_FIRST: Final = compile_late(r"\b(?:i|me|my|we|us|our)\b", re.IGNORECASE)
_LISTED: Final = compile_late(r"(?m)^[ \t]*(?:\d+[.)]|[-*#])\s")
_SMILE: Final = compile_late(r"[:;]-?[)(dp]|[\U0001F300-\U0001FAFF]|\b(?:lol|haha)")
_CODE: Final = compile_late(r"```|[{}=<>]|\(\)|\b(?:def|select|import|return)\b")


class _CueText:
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


def _matches(pattern: str) -> Callable[[_CueText], float]:
    compiled = compile_late(rf"\b(?:{pattern})\b")
    return lambda text: float(min(4, len(compiled.findall(text.lower))))


def _any(*listed: str) -> Callable[[_CueText], float]:
    return lambda text: float(any(word in text.present for word in listed))


def _scaled_share(found: int, text: _CueText) -> float:
    """One word in five is full weight: more of a kind than that says no more."""
    return min(1.0, 5.0 * found / text.count)


def _past(text: _CueText) -> float:
    """Words that look like a past tense; a plain narrative is near 1."""
    found = sum(
        word in IRREGULAR_PAST or (len(word) > 4 and word.endswith("ed") and not word.endswith("eed"))
        for word in text.words
    )
    return _scaled_share(found, text)


def _imperative_start(text: _CueText) -> float:
    opening = [word for word in text.words[:2] if word not in _BEFORE_IMPERATIVE]
    return float(bool(opening) and opening[0] in BASE_VERBS)


def _ending(sign: str) -> Callable[[_CueText], float]:
    """Return the share of sentences that end with this sign."""
    return lambda text: text.endings.count(sign) / max(1, len(text.endings))


def _found(pattern: re.Pattern[str]) -> Callable[[_CueText], float]:
    return lambda text: float(min(4, len(pattern.findall(text.lower))))


def _telling(text: _CueText) -> float:
    """How many sentences say something of their speaker: what is between a greeting and a question counts."""
    return float(
        min(
            3,
            sum(
                end != "?" and len(_FIRST.findall(part)) > 0 and part.count(" ") > 2
                for part, end in zip(text.sentences, text.endings, strict=True)
            ),
        )
    )


def _share(*listed: str) -> Callable[[_CueText], float]:
    wanted = frozenset(listed)
    return lambda text: _scaled_share(sum(word in wanted for word in text.words), text)


def _names(text: _CueText) -> float:
    inside = [word for part in text.sentences for word in _WORD.findall(part)[1:] if word[0].isupper() and word != "I"]
    return float(min(3, len(inside)))


CUES: Final[dict[str, Callable[[_CueText], float]]] = {
    "past tense": _past,
    "present perfect": _matches(r"(?:have|has|'ve) (?:\w+ )?(?:been|\w+ed|become|got|grown|come|had|made|lost)"),
    "stative verb": lambda text: float(min(2, sum(word in STATIVE_THIRD for word in text.words))),
    "imperative clauses": lambda text: min(
        1.0, sum(word in BASE_VERBS for word in text.openers) / max(1, len(text.openers))
    ),
    "imperative start": _imperative_start,
    "to do": lambda text: float(text.first == "to"),
    "time": _matches(TIME),
    "story": _matches(STORY),
    "steps": _matches(STEPS),
    "feeling": _matches(FEELING),
    # "was furious" is about the feeling even where the sentence tells a story.
    "feeling predicate": _matches(rf"(?:{LINKING}) (?:\w+ ){{0,3}}(?:{FEELING})"),
    "idiom": _matches(IDIOM),
    "body": _matches(BODY),
    "insight": _matches(INSIGHT),
    "definition": _matches(DEFINITION),
    "general": _matches(GENERAL),
    "contrast": _matches(CONTRAST),
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
    # Signs of talk, which is worth no sector.
    "asking": _ending("?"),
    "exclaiming": _ending("!"),
    "ends by asking": lambda text: float(text.endings[-1:] == ["?"]),
    "reactions": lambda text: (
        sum(_REACTION.match(part) is not None for part in text.sentences) / max(1, len(text.sentences))
    ),
    "opens with a reaction": lambda text: float(_REACTION.match(text.raw) is not None),
    "telling": _telling,
    "addressed": _share("you", "your", "yours", "you're", "you've", "you'll", "you'd", "u", "ur"),
    "three words": lambda text: float(text.count <= 3),
    "six words": lambda text: float(text.count <= 6),
    "twelve words": lambda text: float(text.count <= 12),
    "thanks": _matches(THANKS),
    "greeting": _matches(GREETING),
    "cheering on": _matches(CHEERING),
    "praise": _matches(PRAISE),
    "comment": _matches(COMMENT),
    "request": _matches(REQUEST),
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
    text = _CueText(content)
    return np.array([cue(text) for cue in CUES.values()], dtype=np.float32)


def cue_rows(contents: Sequence[str]) -> Cues:
    """Return float32 [len(contents), len(NAMES)]."""
    return np.array([cues(content) for content in contents], dtype=np.float32).reshape(len(contents), len(NAMES))
