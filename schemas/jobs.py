"""The sizes and times that both halves of the queue agree on."""

from typing import Final

from engramq.schemas.vocabulary import WorkerKind

COMMANDS_PER_JOB: Final = 16
MEMORIES_PER_FOLLOW_UP: Final = 100  # of one command that workers send about memories
JOB_BYTES: Final = 1024 * 1024  # a job takes no further command beyond this size
FOLLOW_UP_BOUND: Final = 100_000  # commands in one mailbox beyond which follow-ups are left to the sweep
RETRY_AFTER_S: Final = 1.0  # what a refused caller is told to wait where nobody knows better
# A command that has to expect a longer one, for its answer, is refused at once. What is taken is to be answered within
# 2 s; a rate that varies by an eighth needs that much room.
LONGEST_WAIT_S: Final = 1.75
# Commands that are taken whatever they have to expect, so that 64 callers are served by the slowest host: those of a
# job count until all of it has ended.
FEWEST_WAITING: Final = 64 + COMMANDS_PER_JOB
# Mailboxes whose callers wait as long as it takes. Namespaces take turns there, so a job has one command.
BULK: Final = frozenset({WorkerKind.IMPORTS})

LANES_MAX: Final = 64  # each costs a process of all kinds 15 connections

ALIVE_S: Final = 5.0  # how often a worker says that it lives
REPLY_TTL_S: Final = 60  # of a reply list: how long a gateway that went away leaves its replies behind
NOTE_TTL_S: Final = 7 * 24 * 3600  # as long as an idempotency key is kept
REGISTER_S: Final = 30.0  # how often a gateway says that its reply list is in use
REPLY_LIST_MAX_AGE_S: Final = 3600.0  # after which a silent gateway's list is forgotten


def commands_per_job(kind: WorkerKind) -> int:
    """Return how many commands a job of this mailbox may have."""
    return 1 if kind in BULK else COMMANDS_PER_JOB
