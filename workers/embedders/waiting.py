"""The texts that wait for an embedder, and which of them go next.

Knows: who is interactive, who is bulk, and fairness between them. Refuses to know: embedders, caches, tasks. Pure: no
waiting happens here, so that every order of events can be tested.
"""

from collections import OrderedDict

import anyio

from engramq.workers.embedders.interface import BatchLimits, EmbedderUnavailable, Vectors

# Interactive batches in a row before one bulk slice gets its turn: a stream of queries slows an import, never stops it.
INTERACTIVE_BATCHES_IN_A_ROW = 8


class Item:
    """One distinct text on its way: how many callers want it, and, once `settled`, its row or its error."""

    __slots__ = ("error", "interactive", "key", "row", "settled", "text", "wanted_by")

    def __init__(self, key: bytes, text: str, *, interactive: bool) -> None:
        self.key = key
        self.text = text
        self.interactive = interactive
        self.wanted_by = 0
        self.settled = anyio.Event()
        self.row: Vectors | None = None
        self.error: EmbedderUnavailable | None = None


class Waiting:
    """Two first-in-first-out lines. An interactive text waits for at most one bulk slice, whatever bulk has queued."""

    def __init__(self) -> None:
        self._interactive: OrderedDict[bytes, Item] = OrderedDict()
        self._bulk: OrderedDict[bytes, Item] = OrderedDict()
        self._interactive_in_a_row = 0

    @property
    def interactive(self) -> int:
        return len(self._interactive)

    @property
    def bulk(self) -> int:
        return len(self._bulk)

    def add(self, item: Item) -> None:
        (self._interactive if item.interactive else self._bulk)[item.key] = item

    def hasten(self, item: Item) -> None:
        """Move a waiting bulk text into the interactive line, because a second caller is in a hurry."""
        if self._bulk.pop(item.key, None) is not None:
            item.interactive = True
            self._interactive[item.key] = item

    def drop(self, item: Item) -> bool:
        """Forget a text that nobody wants any more; False where it is not waiting (under way, or settled).

        A settled text may have a successor with the same key in line, wanted by others: that one stays.
        """
        for line in (self._interactive, self._bulk):
            if line.get(item.key) is item:
                del line[item.key]
                return True
        return False

    def take(self, limits: BatchLimits, *, bulk_allowed: bool = True) -> list[Item]:
        """Remove and return the next batch, [] where there is none. Bulk and interactive never share one."""
        bulk_turn = not self._interactive or self._interactive_in_a_row >= INTERACTIVE_BATCHES_IN_A_ROW
        if self._bulk and bulk_allowed and bulk_turn:
            self._interactive_in_a_row = 0
            return _take(self._bulk, limits)
        if self._interactive:
            self._interactive_in_a_row = self._interactive_in_a_row + 1 if self._bulk else 0
        return _take(self._interactive, limits)

    def take_interactive(self) -> list[Item]:
        items = [*self._interactive.values()]
        self._interactive.clear()
        return items

    def take_all(self) -> list[Item]:
        items = [*self.take_interactive(), *self._bulk.values()]
        self._bulk.clear()
        return items


def _take(line: OrderedDict[bytes, Item], limits: BatchLimits) -> list[Item]:
    batch: list[Item] = []
    characters = 0
    while line and len(batch) < limits.texts:
        item = next(iter(line.values()))
        characters += len(item.text)
        if batch and characters > limits.characters:
            break
        batch.append(line.popitem(last=False)[1])
    return batch
