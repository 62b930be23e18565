"""Find what a long prompt asks, apart from what is pasted into it: a trace, a diff, a mail, a log. Pure.

The question stands before or after the paste. Its sentences tell it apart: they ask, or command. Where it names little
itself ("Have we seen this before?") what is pasted adds names, few and rare ones. A prompt on one line that is prose is
a question, however it rambles.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from engramq.schemas.common_words import QUESTION, TASKS
from engramq.schemas.passages import words_of
from engramq.schemas.sentences import sentences_of

UNTOUCHED: Final = 300  # characters up to which a prompt is a question
ASKED_CHARS: Final = 600  # of a paragraph that asks, and is taken whole
NAMES: Final = 6  # of a paste
_FEW_WORDS: Final = 2  # of a question that names little itself: with names that no memory has others would count less
_RAMBLING: Final = 2_000  # characters up to which a line of prose is a question
_LOOKED_AT: Final = 4  # sentences or lines at each end
_ENDS: Final = 4_000  # characters at each end that are looked at
_PROSE: Final = 0.8  # of a line of prose that are letters and spaces, at least
_WRAPPED_CHARS: Final = 50  # from which a line may go on in the next

# Not compiled here: most prompts are short, and hooks have no millisecond to lose.
_ASKS: Final = (
    r"\w[\"')\]\u201d\u00bb`]*[?\u061f](?=[\"')\]\u201d\u00bb]*(?:\s|\Z))|\s[?]\Z|\uff1f"
    r"|[\u304b\u5417\u5462][\u3002?]?\Z"
)
# With these, QUESTION and TASKS begins a sentence that asks or commands.
_ALSO_ASKING: Final = (
    "whose find show tell list check look remind recall summarize summarise compare search help answer send plan "
    "decide wann wo wer wen wem warum wieso weshalb wie welche welcher welches welchen kannst könntest zeig zeige "
    "finde erklär erkläre prüf prüfe fasse schreib schreibe sag hilf que quoi quand où qui pourquoi comment quel "
    "quelle quels quelles peux montre explique trouve résume qué cuándo dónde quién cómo cuál puedes muestra "
    "explica busca"
)
_BEFORE_IT: Final = "ok|okay|so|and|now|hey|hi|then|also|but|just|thanks|und"
_ANY_ASKING: Final = "|".join([*sorted(QUESTION | TASKS), *_ALSO_ASKING.split()])
_COMMANDS: Final = (
    rf"(?i)(?:(?:{_BEFORE_IT})\b[,:]? +)*(?:(?:please|pls|bitte|por favor) \w|(?:{_ANY_ASKING})\b(?!\s*[:=(]))"
)
# Of what may be a statement as well: a mark, or words to somebody.
_REQUESTS: Final = (
    rf"(?i)\A(?:(?:{_BEFORE_IT})\b[,:]? +)*(?:(?:please|pls|bitte|por favor) \w|(?:can|could|would|will) you\b|"
    rf"(?:kannst|könntest|würdest) du\b|(?:können|könnten|würden) Sie\b|(?:peux|pourrais)-tu\b|"
    rf"(?:pouvez|pourriez)-vous\b|(?:{_ANY_ASKING}) (?:me|mir|uns)\b|I (?:need|want|would like) you to\b|"
    rf"I'd like you to\b)|[, ](?:please|pls|bitte|por favor)[.!]*\Z"
)
_SAID_BEHIND: Final = rf"(?<=\s)(?:{_ANY_ASKING.title()})\b[^{{}}\[\]<>|;]{{5,300}}[?]\s*\Z"  # in the line of a paste
_PRINTED: Final = (
    r"\s{2}|\t|[-+@>|<{}\[\]#*=/\\$%&^~;]|\d+[:.\-/T]\d|[\w.]+(?:Error|Exception|Warning)\b|"
    r"(?:From|To|Cc|Subject|Date|Sent|Von|An|Betreff|De|Objet|Caused by):|File \"|Traceback \(|"
    r"(?:diff|index|commit) [-0-9a-f]{5}|at [\w$.<>]+ ?[(@:]|(?:INFO|DEBUG|WARN|WARNING|ERROR|FATAL)\b"
)
_GREETS: Final = r"(?i)(?:hi|hello|hey|dear|hallo|liebe[rs]?|bonjour|hola|good morning)\b.{0,40}[,!]\s*\Z"
_SIGNS: Final = (
    r"(?i)(?:(?:(?:best|kind|warm) )?regards|best(?: wishes)?|cheers|thanks(?: a lot| again)?|thank you|sincerely|"
    r"yours|--|(?:viele|liebe|beste|mit freundlichen) grüße?n?|cordialement|saludos)[,!. ]*\Z"
)
_FENCE: Final = r"\s*(?:`{3,}|~{3,})"
_FENCES: Final = rf"(?m)^{_FENCE}(.*)"  # and the language behind it, which no fence has that closes
# Names that tell one thing from another: keys of tickets, kinds of errors, files, words joined by signs or capitals.
_NAMES: Final = (
    r"\b[A-Z][A-Z0-9]{1,9}-\d{1,7}\b",
    r"\b(?:[A-Z][a-z0-9]+){1,5}(?:Error|Exception|Warning|Timeout)\b",
    r"(?<![@.])\b[A-Za-z][\w-]{1,40}\.(?:[a-z]{2,4}|[chrs])\b(?!\.\w|\()",
    r"\b[a-z][a-z0-9]{1,20}(?:_[a-z0-9]{1,20}){1,4}\b|\b[a-z]+(?:[A-Z][a-z0-9]+)+\b|\b(?:[A-Z][a-z0-9]+){2,5}\b",
    r"(?m)^(?:From|Von|De): *\"?([A-Z][\w-]{1,30}(?: [A-Z][\w-]{1,30})?)",
)
_LIBRARIES: Final = ("site-packages", "node_modules", "/usr/lib", "/lib/python", "dist-packages")


class Prompt(NamedTuple):
    """The question of a prompt, and the names in the text that is pasted into it."""

    asked: str
    names: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The words that texts are compared with."""
        return " ".join((self.asked, *self.names))


class _Unit(NamedTuple):
    """A sentence of a prompt, or a line of what is pasted; `paragraph` counts those at one end."""

    text: str
    paragraph: int
    is_prose: bool


def read_prompt(text: str) -> Prompt:
    """Return what a prompt asks; all of it where nothing is pasted, or nothing asks."""
    if len(text) <= UNTOUCHED or ("\n" not in text.strip() and len(text) <= _RAMBLING and is_prose(text)):
        return Prompt(text)
    text = text.strip()
    head, tail = _both_ends(text)
    first, last = _question(head), _question(tail)
    if first and last and first != last:
        begins, ends = _is_beside_paste(head, first, _GREETS), _is_beside_paste(tail, last, _SIGNS)
        if begins != ends:  # else both ask, as far as is known
            first, last = (first, ()) if begins else ((), last)
    asked = " ".join(dict.fromkeys([unit.text for unit in (*first, *last[::-1])]))
    if not asked:
        return Prompt(text)
    return Prompt(asked, _names(text, asked) if len(words_of(asked)) <= _FEW_WORDS else ())


def keep_both_ends(text: str, most: int) -> str:
    """Return a text of at most so many characters: where it is longer its two ends, since either may ask."""
    half = (most - len(_CUT)) // 2
    return text if len(text) <= most else f"{text[:half]}{_CUT}{text[-half:]}"


_CUT: Final = "\n...\n"


def asks(text: str) -> bool:
    """Say whether a text asks somebody for something, by its first or its last sentences; "Will is here." does not."""
    units = [unit for end in _both_ends(text) for unit in end[:_LOOKED_AT] if unit.is_prose]
    return any(re.search(_ASKS, unit.text) or re.search(_REQUESTS, unit.text) for unit in units)


def _both_ends(text: str) -> tuple[list["_Unit"], list["_Unit"]]:
    """Return the units of both ends of a text, those of the last one backwards."""
    head = list(_units(text[:_ENDS]))
    if len(text) <= _ENDS:
        return head, head[::-1]
    tail = text[-_ENDS:]
    fences = re.findall(_FENCES, tail)
    return head, list(_units(tail, begins_fenced=len(fences) % 2 == 1 and not fences[0].strip()))[::-1]


def is_prose(line: str) -> bool:
    """Say whether a line is said, and not printed by a program."""
    if not line.strip() or re.match(_PRINTED, line):
        return False
    return sum(map(str.isalpha, line)) + line.count(" ") >= _PROSE * len(line)


def _does_ask(sentence: str) -> bool:
    return re.search(_ASKS, sentence) is not None or re.match(_COMMANDS, sentence) is not None


def _units(text: str, *, begins_fenced: bool = False) -> Iterator[_Unit]:
    """Give the sentences of prose, and the lines of anything else; a sentence may go on in the next line."""
    paragraph, fenced, begun = 0, begins_fenced, ""
    lines = text.splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=False):
        is_fence = re.match(_FENCE, line) is not None
        if is_fence or not line.strip():
            fenced ^= is_fence
            paragraph += 1
        elif fenced or not (is_prose(line) or (re.search(_ASKS, line[-40:]) and not re.match(_PRINTED, line))):
            said = None if fenced else re.search(_SAID_BEHIND, line[-ASKED_CHARS:])
            yield _Unit(line.strip(), paragraph, is_prose=False)
            if said is not None:
                yield _Unit(said[0].strip(), paragraph + 1, is_prose=True)
        else:
            begun = f"{begun} {line.strip()}".strip()
            if not (
                len(line) >= _WRAPPED_CHARS and begun[-1] not in ".!?:;" and after[:1].islower() and is_prose(after)
            ):
                yield from (_Unit(each, paragraph, is_prose=True) for each in sentences_of(begun))
                begun = ""


def _question(units: Sequence[_Unit]) -> Sequence[_Unit]:
    """Return the paragraph of the first units that asks; the sentence alone where the paragraph is long."""
    asking = next((unit for unit in units[:_LOOKED_AT] if unit.is_prose and _does_ask(unit.text)), None)
    if asking is None:
        return ()
    paragraph = [unit for unit in units if unit.paragraph == asking.paragraph]
    is_whole = all(unit.is_prose for unit in paragraph) and sum(len(unit.text) for unit in paragraph) <= ASKED_CHARS
    return paragraph if is_whole else (asking,)


def _is_beside_paste(units: Sequence[_Unit], question: Sequence[_Unit], mail: str) -> bool:
    """Say whether what is next to a question is printed, or how a mail begins or ends."""
    beside = islice((unit for unit in units if unit not in question), 3)
    return any(not unit.is_prose or re.match(mail, unit.text) for unit in beside)


def _names(text: str, asked: str) -> tuple[str, ...]:
    """Return names of what is pasted, of no library; the last ones first, where a trace says what failed."""
    lines = text[-2 * _ENDS :].splitlines()
    pasted = "\n".join(line for line in lines if not any(library in line for library in _LIBRARIES))
    found = (dict.fromkeys(reversed(re.findall(pattern, pasted))) for pattern in _NAMES)
    names = (name for several in found for name in islice(several, NAMES // 2) if name not in asked)
    return tuple(islice(dict.fromkeys(names), NAMES))
