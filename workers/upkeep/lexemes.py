"""Counts of words, for full text to tell common ones from rare ones."""

from typing import Final

from engramq.schemas.vocabulary import Partition
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

FORGET_LEXEME_COUNTS: Final = sql("forget_lexeme_counts")
COUNT_LEXEMES: Final = sql("count_lexemes")
PARTITION_SIZE: Final = sql("partition_size")

# Counting every lexeme takes 0.8 s for 100,000 memories; of more the newest are a sample.
LEXEME_SAMPLE: Final = 100_000
COUNTED_FROM: Final = 3_000  # memories; below, full text reads every posting list anyway
RARE: Final = 30  # memories with a lexeme below which it is not worth a row


async def is_worth_counting(tx: Transaction, partition: Partition) -> bool:
    """Say whether a partition of the namespace is large enough for counts of its lexemes."""
    row = await tx.row(PARTITION_SIZE, partition=partition, limit=COUNTED_FROM)
    return row is not None and row["memories"] >= COUNTED_FROM


async def count_lexemes(tx: Transaction, partition: Partition) -> int:
    """Write anew how many memories of a partition hold each lexeme; return how many lexemes are not rare."""
    await tx.send(FORGET_LEXEME_COUNTS, partition=partition)
    return len(await tx.rows(COUNT_LEXEMES, partition=partition, sample=LEXEME_SAMPLE, rare=RARE))
