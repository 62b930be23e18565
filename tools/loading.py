"""Fills a database with memories that have their vectors already: COPY, and the slow indexes built afterwards.

For an empty or idle database and its owner; writers would wait for the indexes. Benchmarks use it.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async
from psycopg.rows import dict_row

from engramq.schemas.vocabulary import SYSTEM_PRINCIPAL, Partition, Sector
from engramq.workers.db.conninfo import owner_conninfo
from engramq.workers.db.queries import Library
from engramq.workers.db.vectors import HalfBytes

_QUERIES: Final = {name: text.encode() for name, text in Library(Path(__file__).parent).whole_queries().items()}
SLOW_INDEXES: Final = _QUERIES["slow_indexes"]
MAKE_LOADED: Final = _QUERIES["make_loaded"]
COPY_LOADED: Final = _QUERIES["copy_loaded"]
LOADS: Final = (_QUERIES["load_namespaces"], _QUERIES["load_nodes"])
LOAD_MEMORIES: Final = _QUERIES["load_memories"]
ROOMY: Final = _QUERIES["roomy_session"]
BUILT_IN_PARALLEL: Final = _QUERIES["built_in_parallel"]
BUILT_ALONE: Final = _QUERIES["built_alone"]
ANALYZE: Final = _QUERIES["analyze_memories"]

_TYPES: Final = ("uuid", *["text"] * 6, "timestamptz", "text", "int4", "text[]", "text", "halfvec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A memory to be loaded, active at once. `embedding` is a halfvec in its binary form."""

    id: UUID
    namespace: str
    content: str
    embedding: HalfBytes
    partition: Partition = Partition.TRUSTED
    external_id: str | None = None
    sector: Sector | None = None
    speaker: str | None = None
    occurred_at: datetime | None = None
    thread: str | None = None
    position: int | None = None
    tags: tuple[str, ...] = ()
    project: str | None = None


async def load(
    owner_url: str, model_id: int, memories: Iterable[Loaded], *, linked: bool = False, memory: str = "1GB",
    built: Callable[[str, float], None] | None = None,
) -> int:  # fmt: skip
    """Load memories whose vectors that model made, in one transaction; return how many. Raises psycopg.Error.

    `linked`: the sweep is not to make their similarity links. `built` is told each index and the seconds it took.
    """
    connection = await psycopg.AsyncConnection.connect(owner_conninfo(owner_url), autocommit=True, row_factory=dict_row)
    async with connection:
        await connection.execute(ROOMY, {"memory": memory})
        async with connection.transaction():
            indexes = await (await connection.execute(SLOW_INDEXES)).fetchall()
            for index in indexes:
                await connection.execute(psycopg.sql.SQL("drop index {}").format(psycopg.sql.Identifier(index["name"])))
            await connection.execute(MAKE_LOADED)
            count = await _copy(connection, memories)
            for query in LOADS:
                await connection.execute(query)
            values = {"model_id": model_id, "created_by": SYSTEM_PRINCIPAL, "linked": linked}
            await connection.execute(LOAD_MEMORIES, values)
            await connection.execute(BUILT_IN_PARALLEL)
            for index in indexes:
                started = time.perf_counter()
                await connection.execute(index["definition"].encode())
                if built:
                    built(index["name"], time.perf_counter() - started)
            await connection.execute(BUILT_ALONE)
        await connection.execute(ANALYZE)
    return count


async def _copy(connection: psycopg.AsyncConnection[dict[str, object]], memories: Iterable[Loaded]) -> int:
    await register_vector_async(connection)
    count = 0
    async with connection.cursor().copy(COPY_LOADED) as copy:
        copy.set_types(_TYPES)
        for memory in memories:
            count += 1
            await copy.write_row(
                (
                    memory.id, memory.namespace, memory.partition.value, memory.external_id, memory.content,
                    memory.sector and memory.sector.value, memory.speaker, memory.occurred_at, memory.thread,
                    memory.position, list(memory.tags) or None, memory.project,
                    HalfVector.from_binary(memory.embedding),
                )
            )  # fmt: skip
    return count
