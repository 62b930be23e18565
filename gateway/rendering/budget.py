"""The budget of a reply: what of it is cut or left out, so that its JSON text has at most so many characters. Pure.

Contents are cut at a word and marked `truncated`. Where that is not enough, metadata are left out and named in
`omitted_fields`, then the ends of lists, counted in `omitted`. Nothing is left out in silence: `rest` says how to get
it.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from engramq.schemas import limits
from engramq.schemas.vocabulary import Partition

Body = dict[str, Any]

LEAST_CHARS: Final = 240  # of a content: rather than cutting it shorter, the end of its list is left out
SHORTEST_CHARS: Final = 40  # of any text, when all else is not enough
_ROUNDED: Final = 1_000
_MARGIN: Final = 1.02  # of what the whole takes: the words about cuts are gone then
_SPACES: Final = " \n\t"
_TEXTS: Final = frozenset(
    {"content", "preview", "note", "reason", "source_content", "target_content", "source_query", "target_query"}
)
_OBJECTS: Final = frozenset({"metadata", "properties", "explain"})
# A reply has one list that may end early. `session_memory_ids` loses its beginning: the newest ones matter.
_LISTS: Final = ("memories", "similar_memories", "links", "proposals", "session_memory_ids")
_NEWEST_LAST: Final = "session_memory_ids"
_ONE_MEMORY: Final = ("memory", "old", "new", "stored")
_NEVER_CUT: Final = frozenset(
    {"id", "memory_id", "proposal_id", "command_id", "status", "next_cursor", "rest", "notice", "hint", "warning"}
)
# Of a memory, when all else is not enough.
_KEPT: Final = ("id", "content", "confidence", "created_at", "truncated", Partition.UNTRUSTED.value, "warning")

_encode: Final = msgspec.json.Encoder().encode


def text_of(body: Body) -> str:
    """Return the JSON text of a reply."""
    return _encode(body).decode()


def within(body: Body, budget: int, rest: Callable[[Body, int], str]) -> str:
    """Return the JSON text of a reply, at most `budget` characters; what has to go is taken out of the body.

    `rest` gets the reply (of a report the one within) and a budget for all of it; it returns how to get that.
    """
    text = text_of(body)
    if len(text) <= budget:
        return text
    inner = body["reply"] if isinstance(body.get("reply"), dict) else body
    needed = math.ceil(len(text) * _MARGIN / _ROUNDED) * _ROUNDED
    inner["rest"] = rest(inner, min(limits.REPLY_CHARS_MAX, needed))  # counts too
    _Fitting(body, inner, budget).run()
    return text_of(body)


@dataclass(frozen=True, slots=True)
class _Text:
    """A text that may be cut, and where it stands."""

    holder: Body
    key: str
    whole: str

    def cut(self, length: int) -> None:
        """Leave at most so many characters, up to the end of a word if there is one in the last third."""
        if len(self.whole) <= length:
            self.holder[self.key] = self.whole
            return
        end = max(self.whole.rfind(space, length * 2 // 3, length + 1) for space in _SPACES)
        self.holder[self.key] = self.whole[: end if end > 0 else length].rstrip()
        self.holder["truncated"] = True


class _Fitting:
    """Makes one reply fit, by the mildest means that are enough."""

    def __init__(self, body: Body, inner: Body, budget: int) -> None:
        self._body = body
        self._inner = inner
        self._budget = budget
        # No text can be longer than the budget; so each try costs little, however long they are.
        self._texts = [_Text(*found) for found in _strings(inner) if found[1] in _TEXTS]

    def run(self) -> None:
        """Cut the contents, then take out what is too much, then give the contents what room is left."""
        least = LEAST_CHARS
        self._cut(least)
        if not self._fits():
            self._leave_out_objects()
        if not self._fits():
            self._end_early(at_least=1)
        if not self._fits():
            least = SHORTEST_CHARS
            self._texts += [_Text(*found) for found in _strings(self._inner) if found[1] not in _TEXTS]
            self._cut(least)
        if not self._fits():
            self._end_early(at_least=0)
        if not self._fits():
            self._bare_memories()
        self._lengthen(least)

    def _fits(self) -> bool:
        return len(text_of(self._body)) <= self._budget

    def _cut(self, length: int) -> None:
        for text in self._texts:
            text.holder.pop("truncated", None)
        for text in self._texts:
            text.cut(length)

    def _lengthen(self, least: int) -> None:
        most = min(self._budget, max((len(text.whole) for text in self._texts), default=0))
        self._cut(_largest(least, max(least, most), self._fits_with(self._cut)))

    def _fits_with(self, change: Callable[[int], None]) -> Callable[[int], bool]:
        def fits(amount: int) -> bool:
            change(amount)
            return self._fits()

        return fits

    def _leave_out_objects(self) -> None:
        """Leave out metadata and the like, the largest first."""
        found = sorted(_objects(self._inner), key=lambda one: len(_encode(one[0][one[1]])), reverse=True)
        for holder, key in found:
            holder[key] = {}
            holder.setdefault("omitted_fields", []).append(key)
            if self._fits():
                return

    def _end_early(self, at_least: int) -> None:
        """End the list early, and count what is left out."""
        inner = self._inner
        name = next((one for one in _LISTS if inner.get(one)), None)
        if name is None:
            return
        whole, omitted = inner[name], inner.get("omitted", 0)

        def keep(count: int) -> None:
            inner[name] = (whole[-count:] if count else []) if name == _NEWEST_LAST else whole[:count]
            inner["omitted"] = omitted + len(whole) - count
            if "count" in inner:
                inner["count"] = count

        least = min(at_least, len(whole))
        keep(_largest(least, len(whole), self._fits_with(keep)))

    def _bare_memories(self) -> None:
        """Leave of a memory its id and content only."""
        for name in _ONE_MEMORY:
            memory = self._inner.get(name)
            if isinstance(memory, dict):
                for key in [key for key in memory if key not in _KEPT]:
                    del memory[key]
                memory["omitted_fields"] = ["*"]


def _largest(least: int, most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest amount that fits, `least` if none does; larger ones fit less."""
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least


def _strings(node: Any) -> Iterator[tuple[Body, str, str]]:
    """Give every text that may be cut, with its holder and key; what is inside metadata is left alone."""
    for holder in _holders(node):
        for key, value in holder.items():
            if isinstance(value, str) and key not in _NEVER_CUT and len(value) > SHORTEST_CHARS:
                yield holder, key, value


def _objects(node: Any) -> Iterable[tuple[Body, str]]:
    return [(holder, key) for holder in _holders(node) for key in _OBJECTS if holder.get(key)]


def _holders(node: Any) -> Iterator[Body]:
    if isinstance(node, list):
        for item in node:
            yield from _holders(item)
    elif isinstance(node, dict):
        yield node
        for key, value in node.items():
            if key not in _OBJECTS:
                yield from _holders(value)
