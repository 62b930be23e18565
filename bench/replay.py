"""The SQL of a search by itself: what a search sends is recorded, then sent again without model, queue or ranking."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engramq.schemas.commands import SearchMemories
from engramq.workers.db.database import Store
from engramq.workers.db.lookups import Lookup
from engramq.workers.db.pool import Row
from engramq.workers.db.transaction import Sent, Transaction
from engramq.workers.db.vectors import Embedding, Sizes
from engramq.workers.search.copies import Proven
from engramq.workers.search.reading import QuestionVectors
from engramq.workers.search.search import find_in_copy, find_memories


@dataclass(slots=True)
class Statement:
    """One statement of a search; `waited_for`: so many statements had been sent when its rows were waited for."""

    query: bytes
    values: dict[str, Any]
    waited_for: int = 0


@dataclass(slots=True)
class Recording(Transaction):
    """A transaction that remembers what was sent, and where the search waited for it."""

    statements: list[Statement] = field(default_factory=list)

    async def send(self, query: bytes, **values: Any) -> Sent:
        """Send, and remember."""
        self.statements.append(statement := Statement(query, values))
        sent = await Transaction.send(self, query, **values)
        return _Noting(sent, statement, self.statements)  # type: ignore[return-value]  # as much of it as a search uses


@dataclass(slots=True)
class _Noting:
    """A sent statement that notes when its rows are waited for."""

    sent: Sent
    statement: Statement
    statements: list[Statement]

    async def fetchall(self) -> list[Row]:
        self.statement.waited_for = len(self.statements)
        return await self.sent.fetchall()

    async def fetchone(self) -> Row | None:
        self.statement.waited_for = len(self.statements)
        return await self.sent.fetchone()


@dataclass(frozen=True, slots=True)
class Asked:
    """A search: what it asks for, its vector, and the copy of the namespace that it uses, if it uses one."""

    command: SearchMemories
    embedding: Embedding
    proven: Proven | None = None


async def record(store: Store, namespace: str, asked: Asked, sizes: Sizes) -> list[Statement]:
    """Return the statements of this search, surroundings and shown memories included, those that prove a copy not."""
    statements: list[Statement] = []

    async def search(tx: Transaction) -> None:
        recording = Recording(tx.connection, tx.namespace, tx.tenant)
        vectors = QuestionVectors(asked.embedding)
        if asked.proven is None:
            await find_memories(recording, sizes, asked.command, vectors)
        else:
            await find_in_copy(recording.look_up, asked.command, vectors, asked.proven)
        statements[:] = recording.statements

    await store.read(namespace, search)
    return statements


async def replay(store: Store, namespace: str, statements: Sequence[Statement], *, lookups: bool = False) -> None:
    """Send the statements of a search again, in one transaction, waiting where the search waited.

    `lookups`: the search used a copy, and asks for what it still needs in one go.
    """
    if lookups:
        await store.look_up(namespace, [Lookup(one.query, one.values) for one in statements])
        return

    async def again(tx: Transaction) -> None:
        under_way: list[tuple[Statement, Sent]] = []
        for number, statement in enumerate(statements, 1):
            under_way.append((statement, await tx.send(statement.query, **statement.values)))
            for one, sent in under_way:
                if one.waited_for == number:
                    await sent.fetchall()

    await store.read(namespace, again)
