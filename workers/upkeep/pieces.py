"""Give long memories a vector for each of their pieces, in the background.

A model reads the beginning of a text. The later parts of a long memory are known by the vectors of its pieces, which
ranking compares beside that of the whole (see `candidates.sql`). The rows say what is left, so a crash or a stop costs
nothing; what changes a content or its vector takes the pieces away, and they are made anew here.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import UUID

from engramq.schemas import limits
from engramq.schemas.sentences import sentences_of
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.db.vectors import Embedding
from engramq.workers.embedders.interface import EmbedderUnavailable, InputRejected
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.queue.background import Activity

log = logging.getLogger(__name__)


TOKEN_BYTES: Final = 4  # of a text; English has 4.5 a token, other languages fewer characters of more bytes
PIECE_BYTES: Final = 800  # with 400 recall is the same, and there are twice as many
AT_ONCE: Final = 10  # memories of a transaction: each costs inserts into all indexes, 3 to 5 ms
TURN: Final = 20  # transactions of a namespace before it is another's turn
GIVE_WAY_MAX_S: Final = 0.25  # how long each of them waits while somebody waits for this process
FIRST: Final = UUID(int=0)


@dataclass(slots=True, kw_only=True)
class Pieces:
    """Makes the vectors of pieces that are missing. One per process."""

    store: Store
    vectorizer: Vectorizer
    activity: Activity
    stopping: asyncio.Event

    async def run(self) -> None:
        """Make what is missing, unless the model reads every content whole."""
        if self._reads >= limits.CONTENT_CHARS:
            return
        try:
            waiting = dict.fromkeys(
                (row["namespace"] for row in await self.store.ask("namespaces_without_pieces")), FIRST
            )
            if waiting:
                await self._make(await self.vectorizer.running_model_id(), waiting)
        except EmbedderUnavailable as problem:
            log.warning("No pieces embedded", extra={"reason": problem.reason})

    @property
    def _reads(self) -> int:
        """About how many bytes of a text the model reads."""
        return self.vectorizer.spec.max_tokens * TOKEN_BYTES

    async def _make(self, model_id: int, places: dict[str, UUID]) -> None:
        while places and not self.stopping.is_set():
            for namespace, after in list(places.items()):
                last = await self.store.apart(
                    namespace, self._turn(model_id, namespace, after), None, unless=EmbedderUnavailable
                )
                if last is None:
                    del places[namespace]
                else:
                    places[namespace] = last

    async def _turn(self, model_id: int, namespace: str, after: UUID) -> UUID | None:
        """Take a turn at a namespace; return where to go on, None at its end."""
        for _ in range(TURN):
            await self.activity.pause(0.0, GIVE_WAY_MAX_S, self.stopping)
            if self.stopping.is_set():
                return None
            rows = await self.store.read(
                namespace,
                lambda tx, after=after: tx.rows("without_pieces", after=after, limit=AT_ONCE, model_id=model_id),  # type: ignore[misc]
            )
            if rows:
                pieces = [await self._pieces(row) for row in rows]
                await self.store.write(namespace, partial(_put, rows=rows, pieces=pieces, model_id=model_id))
                after = rows[-1]["id"]
            if len(rows) < AT_ONCE:
                return None
        return after

    async def _pieces(self, row: Row) -> list[Embedding]:
        """Return the vectors of the pieces of a memory; none where the model reads it whole, or takes no piece."""
        content: str = row["content"]
        if len(content.encode()) <= self._reads:
            return []
        try:
            return await self.vectorizer.embed(list(pieces_of(content)), bulk=True)
        except InputRejected:
            log.warning("The model takes no pieces of this memory", extra={"memory_id": str(row["id"])})
            return []


def pieces_of(content: str) -> Iterator[str]:
    """Yield a content as pieces of whole sentences, of at most PIECE_BYTES; a longer sentence is cut at a blank."""
    gathered = ""
    for sentence in _sentences(content):
        both = f"{gathered} {sentence}" if gathered else sentence
        if gathered and len(both.encode()) > PIECE_BYTES:
            yield gathered
            both = sentence
        gathered = both
    if gathered:
        yield gathered


def _sentences(content: str) -> Iterator[str]:
    for sentence in sentences_of(content):
        rest = sentence
        while len(rest.encode()) > PIECE_BYTES:
            head = rest.encode()[:PIECE_BYTES].decode(errors="ignore")
            blank = head.rfind(" ", len(head) // 2)
            head = head if blank < 0 else head[:blank]
            yield head.rstrip()
            rest = rest[len(head) :].lstrip()
        if rest:
            yield rest


async def _put(tx: Transaction, rows: Sequence[Row], pieces: Sequence[Sequence[Embedding]], model_id: int) -> None:
    """Write the pieces of memories. COMMIT does not wait for the disk: what is lost is made again."""
    await tx.send("commit_without_waiting")
    await tx.send(
        "put_pieces",
        ids=[row["id"] for row in rows],
        contents=[row["content"] for row in rows],
        piece_vectors=["{" + ",".join(f'"{piece.text}"' for piece in several) + "}" for several in pieces],
        model_id=model_id,
    )
