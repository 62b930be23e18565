"""What keeps the store in shape, one namespace at a time."""

from typing import Final

from engramq.schemas import limits
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

LEDGER_TRIM: Final = sql("ledger_trim")
FORGET_LEXEME_COUNTS: Final = sql("forget_lexeme_counts")
COUNT_LEXEMES: Final = sql("count_lexemes")
PARTITION_SIZE: Final = sql("partition_size")

TRIMMED_AT_ONCE: Final = 5_000
# Counting every lexeme takes 0.8 s for 100,000 memories; of more the newest are a sample.
LEXEME_SAMPLE: Final = 100_000
COUNTED_FROM: Final = 3_000  # memories; below, full text reads every posting list anyway
RARE: Final = 30  # memories with a lexeme below which it is not worth a row


async def trim_ledger(tx: Transaction) -> int:
    """Forget commands older than idempotency keys are kept, at most TRIMMED_AT_ONCE; return how many."""
    row = await tx.row(LEDGER_TRIM, days=limits.IDEMPOTENCY_DAYS, limit=TRIMMED_AT_ONCE)
    return 0 if row is None else int(row["trimmed"])


async def is_worth_counting(tx: Transaction, partition: Partition) -> bool:
    """Say whether a partition of the namespace is large enough for counts of its lexemes."""
    row = await tx.row(PARTITION_SIZE, partition=partition, limit=COUNTED_FROM)
    return row is not None and row["memories"] >= COUNTED_FROM


async def count_lexemes(tx: Transaction, partition: Partition) -> int:
    """Write anew how many memories of a partition hold each lexeme; return how many lexemes are not rare."""
    await tx.send(FORGET_LEXEME_COUNTS, partition=partition)
    return len(await tx.rows(COUNT_LEXEMES, partition=partition, sample=LEXEME_SAMPLE, rare=RARE))
