"""Cut a reply to its budget, so that its JSON text has at most so many characters. Pure.

Contents are cut to the sentences that bear on what was asked, and marked `truncated`. Where that is not enough,
metadata are left out and named in `omitted_fields`, then the ends of lists, counted in `omitted`. Nothing is left out
in silence: `rest` says how to get it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import msgspec

from engramq.schemas import limits
from engramq.schemas.codec import text_of
from engramq.schemas.passages import Passages
from engramq.schemas.vocabulary import Partition

Body = dict[str, Any]

LEAST_CHARS: Final = 240  # of a content: rather than cutting it shorter, the end of its list is left out
SHORTEST_CHARS: Final = 40  # of any text, when that is not enough
_ROUNDED: Final = 1_000
_MARGIN: Final = 1.02  # of what the whole takes: the words about cuts are gone then
_CONTENT: Final = "content"
_TRUNCATED: Final = "truncated"
_OF_CUTS: Final = (_TRUNCATED, "passage", "part", "parts")
_TEXTS: Final = frozenset(
    {
        _CONTENT,
        "preview",
        "passage",
        "note",
        "reason",
        "source_content",
        "target_content",
        "source_query",
        "target_query",
    }
)
_CHANGE: Final = "change"  # of a proposal: an object with fields of its own, or null
_OBJECTS: Final = frozenset(
    {"metadata", "properties", "explain", "relevance_of", "by_month", "by_thread", "evidence", _CHANGE}
)
_CHANGES: Final = frozenset({"old", "new"})  # the same in an entry of the audit, which has an actor
_NEIGHBORS: Final = "neighbors"  # says in `truncated` that there are more
_MORE_EDGES: Final = "more_edges"  # of a neighbour
# Where a reply tells of many items, one by one: the last are left out first, errors after what went well.
RECEIPTS: Final = ("results", "receipts", "errors")
_LISTS: Final = (
    *RECEIPTS,
    "memories",
    "standing",
    "extracts",
    "similar_memories",
    "links",
    "replaces",
    "still_hidden",
    "still_resting_on",
    "candidates",
    "edges",
    "nodes",
    _NEIGHBORS,
    "proposals",
    "entries",
    "pairs",
    "session_memory_ids",
    "last_recalled_ids",
)
_NEWEST_LAST: Final = "session_memory_ids"  # loses its beginning: the newest ones matter
# Else a page would have no end from which the next could go on.
_AT_LEAST_ONE: Final = ("memories", "extracts", "proposals", "edges", "entries", "pairs")
_EDGES: Final = "edges"  # a page where they are counted; those of a path have all of their fields, or go
_ONE_MEMORY: Final = ("memory", "old", "new", "stored")
_DIGEST: Final = "digest"
_NEVER_CUT: Final = frozenset(
    {
        *("id", "memory_id", "proposal_id", "command_id", "status", "next_cursor", "rest", "notice", "hint", "warning"),
        *("later", "earlier"),
        _DIGEST,
    }
)
_NEVER_SHORT: Final = "updated"  # what an outcome changed: at most 50 short lines
# What of an item of a page stays when all else is not enough.
KNOWN_BY: Final = frozenset({"id", "proposal_id", "edge_id", "later", "earlier", Partition.UNTRUSTED.value})
KEPT: Final = KNOWN_BY | {"content", "confidence", "created_at", "truncated", "effect", "relation", "weight"}
_REFERENCES: Final = "resolved_references"  # of ids that the caller gave and the reply tells
_ALL: Final = "*"
_WORDS: Final = ("notice", "hint")

_encode: Final = msgspec.json.Encoder().encode


def fit_to_budget(body: Body, budget: int, rest: Callable[[int], str], asked: tuple[str, ...] = ()) -> str:
    """Return the JSON text of a reply, at most `budget` characters; what has to go is taken out of the body.

    `rest` gets a budget for all of it, and returns how to get that. `asked`: the words by which passages are chosen;
    without them contents keep their beginnings.
    """
    text, recorded = text_of(body), body.get("reply")
    if len(text) <= budget or (isinstance(recorded, dict) and isinstance(recorded.get(_NEVER_SHORT), list)):
        return text
    inner = body["reply"] if isinstance(body.get("reply"), dict) else body
    needed = min(limits.REPLY_CHARS_MAX, math.ceil(len(text) * _MARGIN / _ROUNDED) * _ROUNDED)
    inner["rest"] = rest(needed)  # counts too
    _Fitting(body, inner, budget, needed, asked).run()
    for holder in [holder for holder in holders_in(inner) if _DIGEST in holder and _is_cut(holder)]:
        del holder[_DIGEST]  # nobody can judge what they were not shown
    return text_of(body)


def _is_cut(holder: Body) -> bool:
    return any(_TRUNCATED in part or "omitted_fields" in part for part in holders_in(holder))


@dataclass(frozen=True)
class _CutText:
    """A text that may be cut, and where it stands; `asked`: the words that its passage is chosen by."""

    holder: Body
    key: str
    whole: str
    asked: tuple[str, ...]

    def cut(self, length: int) -> None:
        """Leave at most so many characters: sentences that bear on what was asked, else those it begins with."""
        if self.key not in self.holder:
            return
        if len(self.whole) <= length:
            self.holder[self.key] = self.whole
            return
        self.holder[self.key] = self._passages.within(length)
        self.holder[_TRUNCATED] = True
        if self.key == _CONTENT and not self._is_part:
            self.holder.update(part=self._passages.part, parts=len(self._passages.parts))
            if self.asked:
                self.holder["passage"] = True

    def reset(self) -> None:
        """Take the marks of a cut away."""
        for mark in (_TRUNCATED,) if self.key != _CONTENT or self._is_part else _OF_CUTS:
            self.holder.pop(mark, None)

    @cached_property
    def _is_part(self) -> bool:
        """Whether the whole is a part of a content already."""
        return "parts" in self.holder

    @cached_property
    def _passages(self) -> Passages:
        return Passages(self.whole, self.asked)


class _Fitting:
    """Makes one reply fit, by the mildest means that are enough."""

    def __init__(self, body: Body, inner: Body, budget: int, needed: int, asked: tuple[str, ...]) -> None:
        self._body = body
        self._asked = asked
        self._inner = inner
        self._budget = budget
        self._needed = needed
        self._texts: list[_CutText] = []

    def run(self) -> None:
        """Cut the contents, then take out what is too much, then give the contents what room is left."""
        self._leave_out_objects(at_least=self._budget)  # such a one can never stay
        self._texts = [_CutText(*found, self._asked) for found in _strings(self._inner) if found[1] in _TEXTS]
        least = LEAST_CHARS
        # Beginnings tell which items cannot stay: to choose sentences of a long text takes milliseconds.
        for cut in (self._shorten_texts, partial(self._cut, least)):
            cut()
            for harsher in (self._leave_out_objects, self._end_lists):
                if not self._fits():
                    harsher()
            here = {id(holder) for holder in holders_in(self._inner)}
            self._texts = [text for text in self._texts if id(text.holder) in here]
        if not self._fits():
            least = SHORTEST_CHARS
            self._texts += [_CutText(*found, ()) for found in _strings(self._inner) if found[1] not in _TEXTS]
            self._cut(least)
        if not self._fits():
            self._empty_lists()
        for kept in (KEPT, KNOWN_BY):
            if not self._fits():
                least = 0
                self._bare(kept)
                self._cut(least)
        if not self._fits() and self._inner.pop(_REFERENCES, None):
            self._inner.setdefault("omitted_fields", []).append(_REFERENCES)
        if not self._fits():
            self._leave_out_nulls()
        self._lengthen(least)

    def _fits(self) -> bool:
        return len(text_of(self._body)) <= self._budget

    def _cut(self, length: int) -> None:
        for text in self._texts:
            text.reset()
        for text in self._texts:
            text.cut(length)

    def _shorten_texts(self) -> None:
        for text in self._texts:
            text.holder[text.key] = text.whole[:SHORTEST_CHARS]

    def _lengthen(self, least: int) -> None:
        most = min(self._budget, max((len(text.whole) for text in self._texts), default=0))
        self._cut(_largest(least, max(least, most), self._fits_with(self._cut)))

    def _fits_with(self, change: Callable[[int], None]) -> Callable[[int], bool]:
        def fits(amount: int) -> bool:
            change(amount)
            return self._fits()

        return fits

    def _leave_out_objects(self, at_least: int = 0) -> None:
        """Leave out metadata and the like of at least so many characters, the largest first, until the rest fits.

        Each is measured once: to encode everything anew after each would hold up everybody else.
        """
        measured = [(len(_encode(holder[key])), holder, key) for holder, key in _objects(self._inner)]
        too_much = len(text_of(self._body)) - self._budget
        for size, holder, key in sorted(measured, key=lambda measured: measured[0], reverse=True):
            if too_much <= 0 or size < at_least:
                return
            holder[key] = None if key == _CHANGE else type(holder[key])()
            holder.setdefault("omitted_fields", []).append(key)
            too_much -= size - len(f'"{key}","omitted_fields":[],')

    def _leave_out_nulls(self) -> None:
        """Leave out each null, and name it among the fields that went."""
        for key in [key for key, value in self._inner.items() if value is None]:
            del self._inner[key]
            self._inner.setdefault("omitted_fields", []).append(key)

    def _end_lists(self) -> None:
        """End the lists early, as late as fits, with one item left of each."""
        for name in _LISTS:
            if self._inner.get(name) and not self._fits():
                if name == _NEIGHBORS:
                    self._end_neighbors()
                else:
                    self._shorten(name, 1)

    def _end_neighbors(self) -> None:
        """End the list of neighbours early, after the lighter of several edges to each, which `more_edges` counts."""
        whole = [(item, item[_EDGES], item.get(_MORE_EDGES, 0)) for item in self._inner[_NEIGHBORS]]
        most = max(len(edges) for _, edges, _ in whole)

        def keep(count: int) -> None:
            for item, edges, more in whole:
                item[_EDGES], left = edges[:count], more + max(0, len(edges) - count)
                item.pop(_MORE_EDGES, None)
                item.update({_MORE_EDGES: left} if left else {})

        keep(1)
        self._shorten(_NEIGHBORS, 1)
        keep(_largest(1, max(1, most), self._fits_with(keep)))

    def _pages(self) -> list[str]:
        """Return the names of lists that keep an item: the next page goes on from it."""
        return [name for name in _AT_LEAST_ONE if name != _EDGES or "count" in self._inner]

    def _empty_lists(self) -> None:
        kept = self._pages()
        for name in _LISTS:
            if self._inner.get(name) and name not in kept and not self._fits():
                self._shorten(name, 0)

    def _shorten(self, name: str, least: int) -> None:
        inner = self._inner
        whole, omitted = inner[name], inner.get("omitted", 0)
        # Of a page, or of neighbours: whether others follow.
        is_cut = inner.get("truncated") if name == _NEIGHBORS or "next_cursor" in inner else None

        def keep(count: int) -> None:
            inner[name] = (whole[-count:] if count else []) if name == _NEWEST_LAST else whole[:count]
            inner["omitted"] = omitted + len(whole) - count
            if "count" in inner and name in (*_AT_LEAST_ONE, _NEIGHBORS):
                inner["count"] = count
            if is_cut is not None:
                inner["truncated"] = is_cut or count < len(whole)

        keep(_largest(min(least, len(whole)), len(whole), self._fits_with(keep)))

    def _bare(self, kept: frozenset[str]) -> None:
        """Leave so much of each item of a page, and memory, and few words."""
        inner = self._inner
        pages = (item for name in self._pages() for item in inner.get(name, ()))
        for item in (*pages, *(inner[name] for name in _ONE_MEMORY if inner.get(name))):
            if isinstance(item, dict):
                for key in item.keys() - kept:
                    del item[key]
                item["omitted_fields"] = [_ALL]
        is_advised = self._needed <= limits.ADVISED_CHARS
        inner["rest"] = f"{f'max_chars={self._needed}' if is_advised else 'A larger max_chars'} shows more."
        self._texts = [text for text in self._texts if text.holder.get(text.key) is not None]
        listed = {(id(text.holder), text.key) for text in self._texts}
        self._texts += [
            _CutText(holder, key, whole, self._asked)
            for holder, key, whole in _strings(inner, longer_than=0)
            if key in _TEXTS and (id(holder), key) not in listed
        ]
        self._texts += [_CutText(inner, key, inner[key], ()) for key in _WORDS if key in inner]


def _largest(least: int, most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest amount that fits, `least` if none does; larger ones fit less."""
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least


def _strings(node: Any, longer_than: int = SHORTEST_CHARS) -> Iterator[tuple[Body, str, str]]:
    """Give every text that may be cut, with its holder and key; what is inside metadata is left alone."""
    for holder in holders_in(node):
        for key, value in holder.items():
            if isinstance(value, str) and key not in _NEVER_CUT and len(_encode(value)) > longer_than:  # escaped
                yield holder, key, value


def _objects(node: Any) -> list[tuple[Body, str]]:
    return [
        (holder, key)
        for holder in holders_in(node)
        for key in (_OBJECTS | _CHANGES if "actor" in holder else _OBJECTS)
        if holder.get(key)
    ]


def holders_in(node: Any) -> Iterator[Body]:
    """Give every object of a reply, the outermost first, but what callers wrote."""
    if isinstance(node, list):
        for item in node:
            yield from holders_in(item)
    elif isinstance(node, dict):
        yield node
        for key, value in node.items():
            if key not in _OBJECTS:
                yield from holders_in(value)
