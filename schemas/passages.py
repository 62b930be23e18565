"""Choose the sentences of a long text that bear on a question, and divide a text into parts. Pure.

Pieces of a text are its sentences, and the lines of lists, tables and code. A piece counts by the words of the question
in it, the rarer a word is in the text the more, and by those of its heading, so that "backup retention" finds the line
below "## Backups". The best one is shown with what is next to it; `...` stands where something is left out.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from json.encoder import encode_basestring
from typing import Final

from engramq.schemas.common_words import GRAMMAR
from engramq.schemas.sentences import sentence_starts

GAP: Final = "..."
WHOLE_CHARS: Final = 8_000  # of a content's JSON text: with more it comes in parts
PART_CHARS: Final = 7_000  # of a part's, so that what is told around it has room in a reply of WHOLE_CHARS
_OF_HEADING: Final = 0.5  # of what a word weighs
_OF_NUMBER: Final = 0.1  # that a piece with a number is worth more: it says what others of its section only introduce
_ALSO: Final = 0.5  # of what the best piece weighs, from which another one is shown before what is next to it
_BESIDE: Final = 0.3  # of the room, that a piece next to the best takes before others
_AROUND: Final = 8  # characters that marks at both ends take
_BETWEEN: Final = len(GAP) + 2
_HEADING_CHARS: Final = 60
_HEADING, _CODE, _PROSE = "heading", "code", "prose"
_LINE_CHARS: Final = 400  # a longer line of a list is divided into its sentences
_WRAPPED_CHARS: Final = 50  # from which a line without an end may go on in the next

# Not compiled here: hooks import this, and most contents are short.
_LISTED: Final = r"\s*(?:[-*+|>#\u2022]|\d{1,3}[.)]\s|\w{1,30}: )|\s{4}|\t"
_WORD: Final = r"[^\W_]+"
_DENSE: Final = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
_ENDING: Final = r"(?:ing|ies|ed|es|[sy])\Z"
_STEM_CHARS: Final = 7
_WORDS: Final = 64  # of a question that count, since each is looked for in every text
_WHOLE_WORD: Final = 3  # characters up to which a word is compared whole
_LONGER: Final = 5  # characters that a word may have beyond its stem
_LONGER_YET: Final = 8  # beyond one of _STEM_CHARS, else a long word would not be found by itself
_ALSO_COMMON: Final = (
    "after again also as at be before but by he her him his if into just know let make may more most need no not now "
    "or out over say shall she show such tell than then these those up while whose aber als auch auf aus bei das dem "
    "den der des die ein eine einen einer es haben hat ich im ist mit nach nicht oder sich sie sind und uns von vor "
    "war wie wir wird zu zum zur"
)
_COMMON: Final = GRAMMAR.union(_ALSO_COMMON.split())


def words_of(question: str) -> tuple[str, ...]:
    """Return the words by which pieces are chosen, without endings: each letter pair where words are not divided.

    A long question counts by its first and last words.
    """
    lower = _lower(question)
    pairs = (run[start : start + 2] for run in re.findall(_DENSE, lower) for start in range(max(1, len(run) - 1)))
    words = (word for word in re.findall(_WORD, re.sub(_DENSE, " ", lower)) if word not in _COMMON and len(word) > 1)
    every = tuple(dict.fromkeys([*map(_stem, words), *pairs]))
    return every if len(every) <= _WORDS else every[: _WORDS // 2] + every[-_WORDS // 2 :]


def _stem(word: str) -> str:
    if len(word) <= _WHOLE_WORD or not word.isalpha():
        return word
    without = re.sub(_ENDING, "", word)
    return (without if len(without) > _WHOLE_WORD else word)[:_STEM_CHARS]


def _lower(text: str) -> str:
    """Return a text in lower case, as long as before."""
    lower = text.lower()
    return (
        lower if len(lower) == len(text) else "".join(low if len(low := each.lower()) == 1 else each for each in text)
    )


class Passages:
    """A text and the words that are asked for; `weights`: what these weigh, else by how rare they are in the text."""

    def __init__(self, text: str, words: tuple[str, ...] = (), weights: Mapping[str, float] | None = None) -> None:
        """Choose nothing yet."""
        self.text, self._words, self._given = text, words, weights

    def within(self, room: int) -> str:
        """Return the text if it is not longer than the room, else what of it bears on the question."""
        if len(self.text) <= room:
            return self.text
        chosen: set[int] = set()
        left, late = room - _AROUND, []
        for place, is_beside in self._order:
            if left <= 0:
                break
            size = self._ends[place] - self._starts[place]
            if is_beside and size > _BESIDE * room:
                late.append(place)
            else:
                left -= self._add(chosen, place, left)
        for place in late:
            left -= self._add(chosen, place, left)
        if chosen:
            self._fill(chosen, left)
        return self._render(sorted(chosen)) if chosen else self._window(room)

    @cached_property
    def parts(self) -> list[str]:
        """The text in parts that are always the same: one where its JSON text has at most WHOLE_CHARS.

        Each ends with a sentence or line, unless that is longer than a part. Together they are the text.
        """
        if len(self.text) <= WHOLE_CHARS and _json_chars(self.text) <= WHOLE_CHARS:
            return [self.text]
        starts = [0, *self._starts[1:]]
        parts, size = [""], 0
        for start, after in zip(starts, [*starts[1:], len(self.text)], strict=True):
            for piece in _cut_to_parts(self.text[start:after]):
                taken = _json_chars(piece)
                if size + taken > PART_CHARS and parts[-1]:
                    parts.append("")
                    size = 0
                parts[-1] += piece
                size += taken
        return parts

    @property
    def part(self) -> int:
        """The number, from 1 on, of the part in which the best piece begins."""
        ends = accumulate(map(len, self.parts))
        return next(number for number, end in enumerate(ends, 1) if self._place < end or end == len(self.text))

    @property
    def _place(self) -> int:
        return self._starts[self._order[0][0]] if self._order else 0

    def sentence(self, share: int, most: int) -> str:
        """Return the sentence or line that says most, whole; the less it counts the more it exceeds its share.

        Some of it where it has more than `most` characters.
        """
        starts, ends, weights = self._starts, self._ends, self._weights
        places = [place for place in range(len(starts)) if place not in self._titles] or range(len(starts))
        best = max(places, key=lambda at: weights[at] / max(share, ends[at] - starts[at]), default=0)
        line = " ".join(self.text[starts[best] : ends[best]].split()) if starts else self.text.strip()
        return line if len(line) <= most else Passages(line, self._words, self._given).within(most)

    def _add(self, chosen: set[int], place: int, left: int) -> int:
        """Choose a piece if there is room for it; return what it takes."""
        beside = (place - 1 in chosen) + (place + 1 in chosen)
        size = self._next(place) - self._starts[place] + _BETWEEN * (1 - beside if chosen else 0)
        if place in chosen or size > left:
            return 0
        chosen.add(place)
        return size

    def _fill(self, chosen: set[int], left: int) -> None:
        """Choose what is next to the best piece, behind it and then before it, as far as there is room."""
        for step in (1, -1):
            place = self._order[0][0] + step
            while 0 <= place < len(self._starts) and left >= _BETWEEN:
                took = self._add(chosen, place, left) if place not in self._titles else 0
                if not took and place not in chosen:
                    break
                left -= took
                place += step

    def _next(self, place: int) -> int:
        return self._starts[place + 1] if place + 1 < len(self._starts) else len(self.text)

    def _render(self, places: list[int]) -> str:
        texts: list[str] = [] if places[0] == 0 else [f"{GAP} "]
        for place, after in zip(places, [*places[1:], -1], strict=True):
            if after == place + 1:
                texts.append(self.text[self._starts[place] : self._starts[after]])
                continue
            end = self._ends[place]
            space = "\n" if "\n" in self.text[end : self._next(place)] else " "
            is_last = after < 0
            texts.append(self.text[self._starts[place] : end])
            if not (is_last and place == len(self._starts) - 1):
                texts.append(f"{space}{GAP}" if is_last else f"{space}{GAP}{space}")
        return "".join(texts)

    def _window(self, room: int) -> str:
        """Return some of a piece that is longer than the room: from its first word that is asked for, by words."""
        if not self._starts or room <= _AROUND:
            return self.text[:room]
        place = self._order[0][0]
        begin, end = self._starts[place], self._ends[place]
        asked = [at for places in self._hits.values() for at in places if begin <= at < end]
        start = max(begin, min(min(asked, default=begin) - room // 4, end - room + _AROUND))
        start = self.text.find(" ", start, start + room // 4) + 1 or start if start > begin else begin
        stop = min(end, start + room - _AROUND)
        if stop < end:
            stop = max(self.text.rfind(" ", start + room // 2, stop), self.text.rfind("\n", start + room // 2, stop))
            stop = stop if stop > 0 else start + room - _AROUND
        before, after = f"{GAP} " if start else "", f" {GAP}" if stop < len(self.text) else ""
        return f"{before}{self.text[start:stop].rstrip()}{after}"

    @cached_property
    def _pieces(self) -> tuple[list[int], dict[int, int], set[int]]:
        """Where pieces begin, which piece is the heading of which, and the headings."""
        starts: list[int] = []
        headings: dict[int, int] = {}
        titles: set[int] = set()
        heading = -1
        for start, end, kind in _blocks(self.text):
            if kind == _HEADING:
                heading = len(starts)
                titles.add(heading)
            begins = _sentences(self.text, start, end) if kind == _PROSE else [start]
            if heading >= 0 and kind != _HEADING:
                headings.update(dict.fromkeys(range(len(starts), len(starts) + len(begins)), heading))
            starts += begins
        return starts, headings, titles

    @property
    def _starts(self) -> list[int]:
        return self._pieces[0]

    @property
    def _titles(self) -> set[int]:
        return self._pieces[2]

    @cached_property
    def _ends(self) -> list[int]:
        """Where pieces end, without the white space behind."""
        starts = self._starts
        afters = [*starts[1:], len(self.text)]  # one more where there are no pieces
        return [start + len(self.text[start:after].rstrip()) for start, after in zip(starts, afters, strict=False)]

    @cached_property
    def _hits(self) -> dict[str, list[int]]:
        """Where each word that is asked for stands."""
        lower = _lower(self.text)
        return {word: found for word in self._words if (found := list(_find_places(lower, word)))}

    @cached_property
    def _weights(self) -> list[float]:
        """The weight of each piece."""
        starts, headings, _ = self._pieces
        weights = [0.0] * len(starts)
        titled = dict.fromkeys(self._titles, 0.0)  # what the words of headings weigh
        for word, places in self._hits.items():
            pieces = {bisect_right(starts, at) - 1 for at in places}
            worth = math.log(1 + len(starts) / len(pieces)) if self._given is None else self._given.get(word, 0.0)
            titles = pieces & self._titles
            for title in titles:
                titled[title] += worth
            for piece in pieces:  # a word that a piece has itself does not count for its heading too
                weights[piece] += worth * (1 - _OF_HEADING if headings.get(piece) in titles else 1)
        for piece, heading in headings.items():
            weights[piece] += titled[heading] * _OF_HEADING
        for place, weight in enumerate(weights):
            if weight and any(map(self.text[starts[place] : self._ends[place]].__contains__, "0123456789")):
                weights[place] += _OF_NUMBER
        return weights

    @cached_property
    def _order(self) -> list[tuple[int, bool]]:
        """The pieces as they are chosen, and whether one is there only for what is next to it."""
        weights, (starts, headings, titles) = self._weights, self._pieces
        if not any(weights):
            return [(place, False) for place in range(len(starts))]
        ranked = sorted(range(len(starts)), key=lambda place: (place in titles, -weights[place], place))
        best = ranked[0] if weights[ranked[0]] else next(place for place in ranked if weights[place])
        order = [(best, False)]
        if best in headings:
            order.append((headings[best], True))
        order += [(near, True) for near in (best + 1, best - 1) if 0 <= near < len(starts)]
        order += [(place, False) for place in ranked if weights[place] >= _ALSO * weights[best] and place != best]
        return list(dict.fromkeys(order))


def _find_places(lower: str, word: str) -> Iterator[int]:
    """Give each place of a text where a word begins that has this stem."""
    is_whole, is_dense = len(word) <= _WHOLE_WORD or not word.isalpha(), re.match(_DENSE, word) is not None
    longer = 1 if is_whole else _LONGER if len(word) < _STEM_CHARS else _LONGER_YET
    at = lower.find(word)
    while at >= 0:
        end = at + len(word)
        begins = is_dense or at == 0 or not lower[at - 1].isalnum()
        if begins and (is_dense or _ends_soon(lower, end, longer)):
            yield at
        at = lower.find(word, end)


def _ends_soon(lower: str, end: int, longer: int) -> bool:
    """Say whether a word ends within some characters; one that is compared whole may have an `s` alone."""
    rest = lower[end : end + longer + 1]
    if longer == 1:
        return not rest[:1].isalnum() or (rest[0] == "s" and not rest[1:].isalnum())
    return len(rest) <= longer or not rest.isalnum()


def _blocks(text: str) -> Iterator[tuple[int, int, str]]:
    """Give the lines of a text, those of a wrapped paragraph as one: where it begins and ends, and what it is."""
    at, begun, in_code = 0, -1, False
    lines, listed = text.split("\n"), re.compile(_LISTED).match
    are_listed = [listed(line) is not None for line in lines]
    after = zip([*lines[1:], ""], are_listed, [*are_listed[1:], False], strict=True)
    for line, (following, is_listed, goes_on_listed) in zip(lines, after, strict=True):
        end = at + len(line) + 1
        is_fence = line.lstrip().startswith(("```", "~~~"))
        is_code = in_code or is_fence
        in_code ^= is_fence
        if line.strip():
            may_flow = not (is_code or is_listed or goes_on_listed) and bool(following.strip())
            is_open = len(line) >= _WRAPPED_CHARS and line.rstrip()[-1] not in ".!?:;"
            start, begun = begun if begun >= 0 else at, -1
            if may_flow and (is_open or start < at):
                begun = start
            elif is_code:
                yield start, end, _CODE
            else:
                yield start, end, _HEADING if start == at and _is_heading(line, following) else _PROSE
        at = end


def _is_heading(line: str, following: str) -> bool:
    stripped = line.strip()
    if stripped.startswith("#") or (stripped.endswith(("**", "**:", ":**")) and stripped.count("**") == 2):
        return True
    if not stripped[0].isalnum() and not stripped.startswith(("*", "[")):
        return False
    return (
        len(stripped) <= _HEADING_CHARS
        and stripped[-1] not in ".!?,;|"
        and (stripped[-1] == ":" or not following.strip() or not following.strip("=-~"))
    )


def _sentences(text: str, start: int, end: int) -> list[int]:
    """Return where the sentences of a block begin."""
    is_short = end - start <= _LINE_CHARS
    if is_short and re.compile(_LISTED).match(text, start, end) and ": " not in text[start : start + 32]:
        return [start]
    return sentence_starts(text, start, end - 1)


def _cut_to_parts(piece: str) -> Iterator[str]:
    """Give a piece in as few as fit into a part, cut at a word if there is one."""
    while _json_chars(piece) > PART_CHARS:
        end = min(len(piece) - 1, PART_CHARS)
        while _json_chars(piece[:end]) > PART_CHARS:
            end = end * 3 // 4
        space = piece.rfind(" ", end // 2, end)
        end = space + 1 if space > 0 else end
        yield piece[:end]
        piece = piece[end:]
    yield piece


def _json_chars(text: str) -> int:
    return len(encode_basestring(text)) - 2
