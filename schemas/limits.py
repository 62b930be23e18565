"""Sizes and bounds of the contract: characters for texts, bytes for JSON, items for lists, seconds for times."""

from typing import Final

from engramq.schemas.vocabulary import WorkerKind

CONTENT_CHARS: Final = 32_768
NAME_CHARS: Final = 255  # names, labels, relations, external_id, speaker, thread, ids
NOTE_CHARS: Final = 2_000  # notes and reasons
SESSION_CHARS: Final = 100
IDEMPOTENCY_KEY_CHARS: Final = 200
QUERY_CHARS: Final = CONTENT_CHARS
METADATA_BYTES: Final = 64 * 1024  # as JSON
METADATA_DEPTH: Final = 32  # levels of nesting
POSITION_MAX: Final = 2**31 - 1
CURSOR_CHARS: Final = 1_536  # of a survey: it marks each of 200 memories that were shown

SEARCH_LIMIT: Final = 50
LIST_LIMIT: Final = 100
SURVEY_LIMIT: Final = 100
EXTRACT_CHARS: Final = 320  # of one sentence: of a longer one some is left out
SIMILAR_SHOWN: Final = 5
TAGS: Final = 50  # of a memory
IMPORT_ROWS: Final = 1_000
IDENTITY_BYTES: Final = 16  # of the digest by which a row of an import is known again

BATCH_LINKS: Final = 200  # links of one connects
OUTCOME_MEMORIES: Final = 50
SIMILARITY_LINKS: Final = 10  # that are made for a new memory
CO_RETRIEVED: Final = 5  # of a search, whose pairs are noted
CO_RETRIEVALS: Final = 3  # session instances after which a pair is linked
DEFERRED_LINKS: Final = 100  # that may wait for one memory
PURGED_SHOWN: Final = 100
RESTING_SHOWN: Final = 24  # memories that rest on what holds no longer
PENDING_COUNTED: Final = 10_000  # memories without a vector, beyond which nobody counts
DUPLICATES_COMPARED: Final = 1_000  # memories that one command compares with each other
DUPLICATES_MERGED: Final = 100  # of one transaction, whose locks others wait for
CLEARED: Final = 50  # names of one update

# Objects that a process has more of before it looks for cycles, of which a call makes next to none: by Python's own 700
# a worker spent a twentieth of each search on that.
COLLECTED_AT: Final = 20_000

PARTS: Final = 100  # of a memory that is read in parts: no content has so many
DRAWN_NODES: Final = 500  # of a drawing of the whole graph; more than that nobody can read
DRAWN_EDGES: Final = 2_000
NEIGHBOR_DEPTH: Final = 5
NEIGHBOR_LIMIT: Final = 500
PATH_DEPTH: Final = 10
HOMONYMS_SHOWN: Final = 10  # that a walk or list tells of
NEIGHBOR_EDGES_SHOWN: Final = 20  # of each neighbour
CANDIDATES_SHOWN: Final = 100  # homonyms that an ambiguous name is answered with
SUGGESTIONS_SHOWN: Final = 5
PROPOSALS_SHOWN: Final = 50
OPEN_PROPOSALS: Final = 50  # of one principal
PROPOSAL_DAYS: Final = 30  # for which a proposal is kept that has ended
MESSAGE_DAYS: Final = 30  # for which a webhook's message is kept that nobody took
TIMELINE_DAYS: Final = 45  # of a timeline by day; a longer one is by month
TIMELINE_MONTHS: Final = 48  # a longer one is by year
EDGE_KINDS_SHOWN: Final = 200  # that stats count separately: callers may invent relations
DELETED_KEPT_DAYS: Final = 30  # how long deleted edges and nodes are kept
DELETIONS_SHOWN: Final = 1_000
AUDIT_ID_MAX: Final = 2**63 - 1
TOKEN_DAYS: Final = 366  # of a token that another token makes, at most
TOKEN_USUAL_DAYS: Final = 90  # of a token, unless somebody says how long it lasts
IMPORT_BATCHES_LOOKED_AT: Final = 200  # of the newest, to tell how an import gets on
CONSENT_HOURS: Final = 48
CONSENT_PRINCIPALS: Final = 2  # who must approve a proposal, the proposer included

# The JSON text of a reply that holds contents: least and most of its budget, and what it is unless said otherwise.
TOKENS: Final = 200  # that the page lists; `engramq token list` shows all
REPLY_CHARS_MIN: Final = 500
REPLY_CHARS_MAX: Final = 200_000
REPLY_CHARS: Final = 8_000
ADVISED_CHARS: Final = 10_000  # the longest reply that every client shows whole: no hint asks for more
PREVIEW_CHARS: Final = 160  # of a similar memory
FOLLOWED_CHARS: Final = 240  # of the reply that followed a hit

BODY_BYTES: Final = 4 * 1024 * 1024  # an HTTP request body, and a line on stdio

IDEMPOTENCY_DAYS: Final = 7
BREADCRUMB_SECONDS: Final = 24 * 3600  # sliding
SESSION_GAP_SECONDS: Final = 30 * 60  # silence after which a new session instance begins
BREADCRUMB_TOUCHED: Final = 1_000  # ids kept per session, the newest

SHOWN_OFTEN: Final = 6  # memories that searches have shown most, on the first screen of the page
STANDING_LISTED: Final = 100  # wishes that a list shows, and that a search looks through
STANDING_SHOWN: Final = 5  # wishes beside the hits of a search

# Limits on which both halves of the queue agree.
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
