"""The texts that wait for an embedder, and which of them go next.

Knows: who is interactive, who is bulk, and fairness between them. Refuses to know: embedders, caches, tasks. Pure: no
waiting happens here, so that every order of events can be tested.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

import anyio

from engramq.workers.embedders.interface import BatchLimits, EmbedderUnavailable, Vectors

# Interactive batches in a row before one bulk slice gets its turn: a stream of queries slows an import, never stops it.
INTERACTIVE_BATCHES_IN_A_ROW = 8


@dataclass(slots=True, eq=False)
class Item:
    """One distinct text on its way: how many callers want it, and, once `settled`, its row or its error."""

    key: bytes
    text: str
    interactive: bool
    question: bool = False
    wanted_by: int = 0
    settled: anyio.Event = field(default_factory=anyio.Event)
    row: Vectors | None = None
    error: EmbedderUnavailable | None = None


class Waiting:
    """Two first-in-first-out lines. An interactive text waits for at most one bulk slice, whatever bulk has queued."""

    def __init__(self) -> None:
        self.interactive: OrderedDict[bytes, Item] = OrderedDict()
        self.bulk: OrderedDict[bytes, Item] = OrderedDict()
        self._interactive_in_a_row = 0

    def add(self, item: Item) -> None:
        (self.interactive if item.interactive else self.bulk)[item.key] = item

    def hasten(self, item: Item) -> None:
        """Move a waiting bulk text into the interactive line, because a second caller is in a hurry."""
        if self.bulk.pop(item.key, None) is not None:
            item.interactive = True
            self.interactive[item.key] = item

    def drop(self, item: Item) -> bool:
        """Forget a text that nobody wants any more; False where it is not waiting (under way, or settled).

        A settled text may have a successor with the same key in line, wanted by others: that one stays.
        """
        for line in (self.interactive, self.bulk):
            if line.get(item.key) is item:
                del line[item.key]
                return True
        return False

    def take(self, limits: BatchLimits, *, bulk_allowed: bool = True) -> list[Item]:
        """Remove and return the next batch, [] where there is none. Bulk and interactive never share one."""
        bulk_turn = not self.interactive or self._interactive_in_a_row >= INTERACTIVE_BATCHES_IN_A_ROW
        if self.bulk and bulk_allowed and bulk_turn:
            self._interactive_in_a_row = 0
            return _take(self.bulk, limits, limits.texts)
        if self.interactive:
            self._interactive_in_a_row = self._interactive_in_a_row + 1 if self.bulk else 0
        return _take(self.interactive, limits, 1 if limits.alone else limits.texts)

    def take_interactive(self) -> list[Item]:
        items = [*self.interactive.values()]
        self.interactive.clear()
        return items

    def take_all(self) -> list[Item]:
        items = [*self.take_interactive(), *self.bulk.values()]
        self.bulk.clear()
        return items


def _take(line: OrderedDict[bytes, Item], limits: BatchLimits, texts: int) -> list[Item]:
    batch: list[Item] = []
    characters = 0
    while line and len(batch) < texts:
        item = next(iter(line.values()))
        characters += len(item.text)
        if batch and (characters > limits.characters or item.question != batch[0].question):
            break
        batch.append(line.popitem(last=False)[1])
    return batch
