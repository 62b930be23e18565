"""The arms of a search by themselves, from a stack's own tables: BM25, the vectors, and both normalised and added."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import psycopg
from numpy.typing import NDArray

from engramq.workers.db.vectors import unpacked
from engramq.workers.embedders.minilm import MiniLmEmbedder

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
        vectors = np.array([unpacked(row[1]) for row in rows], dtype=np.float32)
        return cls([row[0] for row in rows], vectors, [row[2] for row in rows])

    def rankings(self, asked: Sequence[str], question: NDArray[np.float32]) -> dict[str, list[str]]:
        """Return the ids by BM25, by vector, and by the sum of both normalised, best first."""
        words, cosines = self._bm25(asked), (self.vectors @ question).astype(np.float64)
        arms = {"bm25": words, "vector": cosines, "z_fusion": _normalised(words) + _normalised(cosines)}
        return {name: [self.ids[row] for row in np.argsort(-scores, kind="stable")] for name, scores in arms.items()}

    def _bm25(self, asked: Sequence[str]) -> Matrix:
        lengths = np.array([sum(one.values()) for one in self.words], dtype=np.float64)
        norms = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1.0))
        scores = np.zeros(len(self.ids))
        for word in asked:
            counts = np.array([one.get(word, 0) for one in self.words], dtype=np.float64)
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
