"""Rank labelled questions through the MCP gateway and by single arms, and score what was found; see `bench.recall`.

MEMORIES has rows as `engramq import` takes them, with namespace and external_id; QUERIES has one question per line:
{"qid", "namespace", "query", "category", "evidence": [external_id, ...]}. Each question is asked over HTTP by the SDK's
client with limit 50.
"""

import asyncio
import json
import math
import os
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg
from mcp.client import Client
from numpy.typing import NDArray

from bench.common import ENGRAMQ
from engramq.schemas import limits
from engramq.workers.db.vectors import unpack
from engramq.workers.embedders.minilm import MiniLmEmbedder

CUTS: Final = (5, 10, 20, 50)
GAIN_CUT: Final = 10
ADVERSARIAL: Final = 5  # the category that the overall figures leave out


def score(ranking: Sequence[str], evidence: Set[str]) -> dict[str, float]:
    """Score one ranking; what comes twice counts where it comes first."""
    gains = [memory_id in evidence for memory_id in dict.fromkeys(ranking)]
    figures = {f"R@{cut}": sum(gains[:cut]) / len(evidence) for cut in CUTS}
    best = sum(_discount(place) for place in range(min(GAIN_CUT, len(evidence))))
    figures["nDCG@10"] = sum(_discount(place) for place, gain in enumerate(gains[:GAIN_CUT]) if gain) / best
    figures["MRR"] = next((1 / (place + 1) for place, gain in enumerate(gains) if gain), 0.0)
    return figures


def _discount(place: int) -> float:
    return 1 / math.log2(place + 2)


LIMIT: Final = 50
MAX_CHARS: Final = 200_000  # so that no hit is left out for want of room
AT_ONCE: Final = 4  # questions of one namespace
# What a search takes so that no hit is left out for want of relevance.
EVERYTHING: Final[Mapping[str, Any]] = {"min_relevance": 0}

Row = dict[str, Any]


def read_lines(path: Path) -> list[Row]:
    """Return the objects of a JSONL file."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def drop_fields(memories: list[Row], without: frozenset[str]) -> list[Row]:
    """Return the rows to import without some fields; a thread takes its positions along.

    Contents that are too long are cut: BEAM has two.
    """
    gone = without | ({"position"} if "thread" in without else frozenset())
    rows = [{name: value for name, value in row.items() if name not in gone} for row in memories]
    return [row | {"content": row["content"][: limits.CONTENT_CHARS]} for row in rows]


def bring_in(rows: list[Row], variables: Mapping[str, str]) -> float:
    """Import the rows as a user would; return the seconds that it took."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
        file.flush()
        started = time.perf_counter()
        subprocess.run(
            [ENGRAMQ, "import", file.name], env={**os.environ, **variables}, check=True, stdout=subprocess.DEVNULL
        )
        return time.perf_counter() - started


async def ask(url: str, queries: list[Row], **arguments: Any) -> dict[str, list[str]]:
    """Return the ranking of external ids for each question by its qid; `arguments`: more of the search's."""
    given = {"limit": LIMIT, "max_chars": MAX_CHARS, **EVERYTHING} | arguments
    found: dict[str, list[str]] = {}
    room = asyncio.Semaphore(AT_ONCE)
    async with Client(url) as client:

        async def one(query: Row) -> None:
            async with room:
                result = await client.call_tool("search_memories", {"query": query["query"]} | given)
            body = result.structured_content
            assert body is not None
            assert body["status"] == "success", body
            found[query["qid"]] = [memory["external_id"] for memory in body["memories"]]

        async with asyncio.TaskGroup() as group:
            for query in queries:
                group.create_task(one(query))
    return found


def by_namespace(queries: list[Row]) -> dict[str, list[Row]]:
    """Return the questions of each namespace."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for query in queries:
        groups[query["namespace"]].append(query)
    return groups


Matrix = NDArray[np.float64]

VECTORS_S: Final = 3_600.0  # that upkeep may take
LOOK_S: Final = 1.0  # between two looks
K1: Final = 1.2
B: Final = 0.75
# The words that the product has of a memory, each with how often it comes.
_MEMORIES: Final = """
select n.external_id, halfvec_send(m.embedding) as vector, (
    select coalesce(json_object_agg(w.lexeme, cardinality(w.positions)), '{}'::json)
    from unnest(to_tsvector('english', m.content || ' ' || coalesce(m.speaker, '') || ' '
        || coalesce(to_char(m.occurred_at at time zone 'UTC', 'FMDD FMMonth YYYY'), ''))) w
) as words
from memories m
join nodes n on n.tenant = m.tenant and n.id = m.node_id
where m.tenant = tenant_of(%s)
order by m.node_id
"""
_PENDING: Final = """
select count(*) from memories
where embedding is null or (pieces is null and state = 'active' and octet_length(content) > 1000)
"""
_WORDS: Final = "select tsvector_to_array(to_tsvector('english', %s)) as words"


@dataclass(frozen=True, slots=True)
class Arms:
    """The memories of a namespace, to be put in order by single arms."""

    ids: Sequence[str]
    vectors: NDArray[np.float32]
    words: Sequence[Mapping[str, int]]

    @classmethod
    def read(cls, owner: psycopg.Connection[Any], namespace: str) -> "Arms":
        """Read a namespace; all of it must have vectors."""
        rows = owner.execute(_MEMORIES, (namespace,), binary=True).fetchall()
        vectors = np.array([unpack(row[1]) for row in rows], dtype=np.float32)
        return cls([row[0] for row in rows], vectors, [row[2] for row in rows])

    def rankings(self, asked: Sequence[str], question: NDArray[np.float32]) -> dict[str, list[str]]:
        """Return the ids by BM25, by vector, and by the sum of both normalised, best first."""
        words, cosines = self._bm25(asked), (self.vectors @ question).astype(np.float64)
        arms = {"bm25": words, "vector": cosines, "z_fusion": _normalised(words) + _normalised(cosines)}
        return {name: [self.ids[row] for row in np.argsort(-scores, kind="stable")] for name, scores in arms.items()}

    def _bm25(self, asked: Sequence[str]) -> Matrix:
        lengths = np.array([sum(counts.values()) for counts in self.words], dtype=np.float64)
        norms = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1.0))
        scores = np.zeros(len(self.ids))
        for word in asked:
            counts = np.array([counts.get(word, 0) for counts in self.words], dtype=np.float64)
            having = float((counts > 0).sum())
            scores += np.log(1 + (len(self.ids) - having + 0.5) / (having + 0.5)) * counts * (K1 + 1) / (counts + norms)
        return scores


def wait_for_vectors(owner: psycopg.Connection[Any]) -> None:
    """Return when every memory has its vectors: upkeep makes those that an import could not wait for, and of pieces."""
    until = time.monotonic() + VECTORS_S
    while (row := owner.execute(_PENDING).fetchone()) is not None and row[0]:
        if time.monotonic() > until:
            raise TimeoutError(f"{row[0]} memories lack vectors")
        owner.rollback()
        time.sleep(LOOK_S)


def words_of(owner: psycopg.Connection[Any], question: str) -> list[str]:
    """Return the words of a question as full text has them."""
    row = owner.execute(_WORDS, (question,)).fetchone()
    assert row is not None
    return list(row[0])


async def vectors_of(questions: Sequence[str]) -> NDArray[np.float32]:
    """Return what the bundled model makes of questions."""
    embedder = MiniLmEmbedder()
    found = await embedder.embed(questions, questions=True)
    await embedder.aclose()
    return found


def _normalised(scores: Matrix) -> Matrix:
    normalised: Matrix = (scores - scores.mean()) / max(float(scores.std()), 1e-9)
    return normalised
