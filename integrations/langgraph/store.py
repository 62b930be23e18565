"""The store: operations as calls of engramq's client, the same ones for threads and for asyncio."""

from collections.abc import Iterable, Sequence
from typing import Final

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from engramq.client import AsyncMemory, Memory, Refused, calls
from engramq.client.call import CallSequence
from engramq.client.pages import PAGE, all_recent
from engramq.langgraph.items import about_of, expiry, fields_of, is_meant, item_of, item_tag, matches, within_tags
from engramq.schemas import records

FOUND: Final = 50  # the most that one search returns
FILTERED: Final = 200  # items, the newest, that a filter means and that are searched one by one behind these
WHOLE: Final = ("$",)
TRIES: Final = 8  # of a put while others change who sees the item


class EngramqStore(BaseStore):
    """A LangGraph store whose items are memories of engramq. It may be shared by threads.

    `url` and `token` are else read from ENGRAMQ_URL and ENGRAMQ_TOKEN. `fields`: the paths of a value that it is found
    by where a put names none. `ttl`: as of every store. An item that is overwritten is superseded and one that is
    deleted archived, so that both can be brought back; docs/frameworks.md lists what differs from LangGraph's own.
    """

    supports_ttl = True

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        fields: Sequence[str] = WHOLE,
        ttl: TTLConfig | None = None,
    ) -> None:
        self.ttl_config = ttl
        self._fields = fields
        self._memory = Memory(url, token)
        self._async_memory = AsyncMemory(url, token)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry operations out: what is read is as it was before what is written. Raises EngramqFailure."""
        return self._memory.converse(self._carried_out(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry operations out, as `batch` does."""
        return await self._async_memory.converse(self._carried_out(list(ops)))

    def close(self) -> None:
        """Close the connections of `batch`."""
        self._memory.close()

    async def aclose(self) -> None:
        """Close all connections."""
        self._memory.close()
        await self._async_memory.aclose()

    def _carried_out(self, ops: list[Op]) -> CallSequence[list[Result]]:
        results: list[Result] = []
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for op in ops:
            validate_op_namespace(op)
            match op:
                case GetOp():
                    results.append((yield from self._got(op)))
                case SearchOp():
                    results.append((yield from self._search(op)))
                case ListNamespacesOp():
                    results.append((yield from self._namespaces(op)))
                case PutOp():
                    puts[op.namespace, op.key] = op  # the last of several counts
                    results.append(None)
                case _:
                    raise ValueError(f"There is no operation {type(op).__name__}.")
        for put in puts.values():
            yield from self._put(put)
        return results

    def _got(self, op: GetOp) -> CallSequence[Item | None]:
        memory = next(iter((yield from _current(op.namespace, op.key))), None)
        if memory is None:
            return None
        if op.refresh_ttl:
            yield from _refresh(memory)
        return item_of(memory)

    def _put(self, op: PutOp) -> CallSequence[None]:
        for attempt in range(TRIES):
            before = yield from _current(op.namespace, op.key)
            if op.value is None:
                for memory in before:
                    yield calls.forget(memory.id)
                return
            said = fields_of(op, about_of(before[-1])["created_at"] if before else None, self._fields)
            if before:  # else the new value of a private item would be everybody's
                said["visibility"] = "private" if _is_private(before[0]) else "shared"
            stored = (yield calls.store(**said)).stored
            try:
                for memory in reversed(before):
                    yield calls.supersede(memory.id, stored.id)
            except Refused as refused:
                if refused.code != "forbidden":
                    raise
                yield calls.forget(stored.id, erase=True, reason="who sees the item was changed meanwhile")
                if attempt == TRIES - 1:
                    raise
            else:
                return

    def _search(self, op: SearchOp) -> CallSequence[list[SearchItem]]:
        wanted = op.offset + op.limit
        within = within_tags(op.namespace_prefix)
        found = _FoundItems(op)
        if op.query:
            hits = yield calls.search(op.query, limit=FOUND, tags=within, min_relevance=0)
            found.add(hits.memories)
            if op.filter and len(hits.memories) == FOUND and len(found.items) < wanted:
                yield from self._add_rest(op.query, within, found)
        is_all = not op.query or len(hits.memories) < FOUND
        cursor: str | None = None
        while not op.query and len(found.items) < wanted:
            page = yield calls.recent(limit=PAGE, tags=within, cursor=cursor)
            found.add(page.memories)
            cursor = page.next_cursor
            if not cursor:
                break
        if not is_all or cursor:
            yield from _prefer(found, wanted)
        chosen = found.items[op.offset : wanted]
        for _, memory in chosen if op.refresh_ttl else ():
            yield from _refresh(memory)
        return [item for item, _ in chosen]

    def _add_rest(self, query: str, within: list[str], found: "_FoundItems") -> CallSequence[None]:
        """Add what the filter means and what stands behind the hits of a search, by its own likeness to the query.

        Else a namespace with many items that are more like the query would hide those that the filter asks for.
        """
        known = {(item.namespace, item.key) for item, _ in found.items}
        meant = _FoundItems(found.op)
        meant.add((yield from all_recent(tags=within)))
        rest: list[records.Memory] = []
        for item, memory in meant.items[:FILTERED]:
            if (item.namespace, item.key) not in known:
                alone = [*within, item_tag(item.namespace, item.key)]
                hits = yield calls.search(query, limit=FOUND, tags=alone, min_relevance=0)
                rest += [hit for hit in hits.memories if hit.id == memory.id]
        found.add(sorted(rest, key=lambda memory: memory.similarity or 0.0, reverse=True))

    def _namespaces(self, op: ListNamespacesOp) -> CallSequence[list[tuple[str, ...]]]:
        items = map(item_of, (yield from all_recent(tags=within_tags(()))))
        found = {item.namespace for item in items if item is not None}
        meant = {space for space in found if all(is_meant(each, space) for each in op.match_conditions or ())}
        return sorted({space[: op.max_depth] for space in meant})[op.offset : op.offset + op.limit]


def _current(namespace: tuple[str, ...], key: str) -> CallSequence[list[records.Memory]]:
    """Return the memories that are an item, newest first: one, unless two writers met.

    One's own private item counts alone, whatever shared ones of the same key there are: their author would else
    get what its owner puts next. All pages are read, or so many could be planted that none shows the private one.
    """
    memories = yield from all_recent(tags=[item_tag(namespace, key)])
    items = [memory for memory in memories if item_of(memory) is not None]
    return [memory for memory in items if _is_private(memory)] or items


def _is_private(memory: records.Memory) -> bool:
    return memory.visibility == "private"


def _refresh(memory: records.Memory) -> CallSequence[None]:
    """Let an item live as long again as it was put to live; nothing for one that has no end."""
    ttl = about_of(memory).get("ttl")
    if isinstance(ttl, int | float):
        yield calls.update(memory.id, expires_at=expiry(ttl))


def _prefer(found: "_FoundItems", wanted: int) -> CallSequence[None]:
    """Put one's own private items in the place of shared ones of the same key, which may be planted, among the first.

    Their own private ones may be beyond what was read.
    """
    looked_up = set[tuple[tuple[str, ...], str]]()
    while True:
        shared = [item for item, memory in found.items[:wanted] if not _is_private(memory)]
        left = [item for item in shared if (item.namespace, item.key) not in looked_up]
        if not left:
            return
        for item in left:
            looked_up.add((item.namespace, item.key))
            found.add(filter(_is_private, (yield from _current(item.namespace, item.key))))


class _FoundItems:
    """Items of a search, in the order in which they were found; as in `_current` one's own private one goes first."""

    def __init__(self, op: SearchOp) -> None:
        self.op = op
        self._items: dict[tuple[tuple[str, ...], str], tuple[SearchItem, records.Memory] | None] = {}

    @property
    def items(self) -> list[tuple[SearchItem, records.Memory]]:
        """What the search means."""
        return [found for found in self._items.values() if found is not None]

    def add(self, memories: Iterable[records.Memory]) -> None:
        """Add the items among memories, each once."""
        private = {key for key, found in self._items.items() if found is None or _is_private(found[1])}
        for memory in memories:
            item = item_of(memory, memory.similarity if isinstance(memory.similarity, float) else None)
            if item is None or (key := (item.namespace, item.key)) in private:
                continue
            is_wanted = matches(item.value, self.op.filter)
            if _is_private(memory):
                private.add(key)
                self._items[key] = (item, memory) if is_wanted else None
            elif is_wanted:
                self._items.setdefault(key, (item, memory))
