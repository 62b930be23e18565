"""What lies around the best candidates of a search, in one statement."""

from collections.abc import Sequence
from typing import Final

import msgspec

from engramq.schemas.vocabulary import Sector
from engramq.workers.db.memory_rows import usefulness
from engramq.workers.db.queries import sized_sql, sql
from engramq.workers.db.transaction import Sent, Transaction
from engramq.workers.db.vectors import Embedding
from engramq.workers.search.boosts import Facts, Reached, Surroundings
from engramq.workers.search.candidates import Filters
from engramq.workers.search.question import TIME_WORDS, Question
from engramq.workers.search.ranking import Candidates

PLAN_ONCE: Final = sql("plan_once")
QUERY: Final = "search_surroundings"
NO_VECTOR: Final = 1  # dimensions that the query is made for when there is no vector to compare


class Known(msgspec.Struct, array_like=True):
    """What the database has on some memories, a list for each field."""

    ids: list[str]
    sector: list[Sector]
    confidence: list[float]
    helped: list[float]
    hindered: list[float]
    idle_hours: list[float]


_links: Final = msgspec.json.Decoder(list[Reached])
_linked: Final = msgspec.json.Decoder(Candidates)
_known: Final = msgspec.json.Decoder(Known)


async def send_surroundings(
    tx: Transaction,
    question: Question,
    embedding: Embedding | None,
    filters: Filters,
    *,
    best: Sequence[str],
    seeds: Sequence[str],
) -> Sent:
    """Ask for what lies around the `best` candidates, with the links of the `seeds` among them; see `surroundings`.

    What the transaction asks for afterwards should be lookups by key too: see the query `plan_once`.
    """
    await tx.send(PLAN_ONCE)
    return await tx.send(
        sized_sql(QUERY, NO_VECTOR if embedding is None else embedding.dimensions),
        **filters.values,
        first=filters.partitions[0],
        last=filters.partitions[-1],
        dates=question.names_a_date,
        time_words=TIME_WORDS if question.asks_when else None,
        embedding=embedding and embedding.half,
        model_id=embedding and embedding.model_id,
        best=_array(best),
        seeds=_array(seeds),
    )


async def surroundings(sent: Sent) -> Surroundings:
    """Wait for what `send_surroundings` has asked for."""
    row = await sent.fetchone()
    assert row is not None
    return Surroundings(
        facts=Facts() if row["known"] is None else _facts(_known.decode(row["known"])),
        links=[] if row["links"] is None else _links.decode(row["links"]),
        linked=Candidates() if row["linked"] is None else _linked.decode(row["linked"]),
    )


def _facts(known: Known) -> Facts:
    judged = zip(known.confidence, known.helped, known.hindered, strict=True)
    return Facts(known.ids, [usefulness(*one) for one in judged], known.sector, known.idle_hours)


def _array(ids: Sequence[str]) -> str:
    """Return ids as PostgreSQL writes an array; the driver takes a tenth of a millisecond for 64 of them in a list."""
    return "{" + ",".join(ids) + "}"
