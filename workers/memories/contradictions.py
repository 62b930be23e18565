"""Mark memories of a reply that say otherwise than others there, and list all pairs of a namespace that do.

Nothing is decided: the later memory tells which other it differs from. A trusted memory quotes no untrusted one, so
that no stranger's text comes into it: of two of different trust the untrusted one tells it, whichever is the later.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from msgspec import UNSET

from engramq.schemas.commands import ContradictionList, ListContradictions
from engramq.schemas.contents import preview_of
from engramq.schemas.faults import invalid
from engramq.schemas.ids import parse_uuid
from engramq.schemas.records import Contradiction, Difference, Memory
from engramq.schemas.vocabulary import BOTH_HOLD, Partition, Relation
from engramq.workers.db.memory_rows import memory_record, visible_now
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Sizes
from engramq.workers.memories.disagreement import PIECE_CHARS, Pieces, disagreement
from engramq.workers.memories.duplicates import LookedUp, Sought, model_id_of, near_pairs
from engramq.workers.runner import Context, handles_without_transaction

LOOKED_UP_TOGETHER: Final = 50  # of one transaction: 5 ms each on two busy cores
TRANSACTIONS: Final = 4  # of a page at most, which ends sooner where something was seen
PAIRS: Final = 50  # of a page
MARKED: Final = 20  # the first of a reply; each pair takes up to .2 ms
OTHERS: Final = 3  # that one memory of a reply is said to differ from
TRUSTED: Final = (Partition.TRUSTED,)

Ends = frozenset[str]  # the ids of two memories that are linked


def mark(memories: Sequence[Memory], beside: Sequence[Memory] = (), linked: Collection[Ends] = ()) -> None:
    """Say of memories of a reply what they differ from, in the reply or `beside` it: almost in it.

    `linked`: those that an agent linked as contradicting each other.
    """
    first = memories[:MARKED]
    for place, memory in enumerate(first):
        for other in first[place + 1 :]:
            mark_pair(memory, other, linked)
        for other in beside:
            mark_pair(memory, other, linked, beside=True)


def mark_pair(memory: Memory, other: Memory, linked: Collection[Ends] = (), *, beside: bool = False) -> None:
    """Say of one of two memories where it differs from the other: in the reply, or `beside` it."""
    pieces = compare(memory, other, linked)
    if pieces is None:
        return
    is_later = _moment(memory) > _moment(other)
    tells = is_later or beside
    if memory.partition is not other.partition:
        tells = memory.partition is Partition.UNTRUSTED
        if beside and not tells:
            return
    carrier, quoted = (memory, other) if tells else (other, memory)
    said, here = (pieces.earlier, pieces.later) if tells == is_later else (pieces.later, pieces.earlier)
    differences = [] if carrier.differs_from is UNSET else carrier.differs_from
    if len(differences) < OTHERS:
        newer = UNSET if tells == is_later else True
        carrier.differs_from = [*differences, Difference(id=quoted.id, said=said, here=here, newer=newer)]


def compare(memory: Memory, other: Memory, linked: Collection[Ends] = ()) -> Pieces | None:
    """Return the pieces in which two memories disagree, in the order of their time; None where they do not.

    Of two where the one has replaced the other it is decided, nor do those disagree that hold at different times.
    """
    if not (memory.superseded_by is memory.superseded_at is other.superseded_by is other.superseded_at is None):
        return None
    if memory.project != other.project and None not in (memory.project, other.project):
        return None
    for one, next_one in ((memory, other), (other, memory)):
        if one.valid_until is not None and next_one.valid_from is not None and one.valid_until <= next_one.valid_from:
            return None
    earlier, later = sorted((memory, other), key=_moment)
    pieces = disagreement(earlier.content, later.content, same_speaker=earlier.speaker == later.speaker)
    if pieces is None and frozenset((memory.id, other.id)) in linked:
        return Pieces(*(preview_of(each.content, PIECE_CHARS) for each in (earlier, later)))
    return pieces


def _moment(memory: Memory) -> tuple[datetime, int, str]:
    return memory.moment, memory.position or 0, memory.id


@handles_without_transaction(ListContradictions)
async def list_contradictions(command: ListContradictions, context: Context) -> ContradictionList:
    """List memories that disagree with one of their nearest, newest first; bounded work, so a page may be empty.

    Raises EngramqError: `unavailable` without a model.
    """
    position = None if command.cursor is UNSET else _parse(command.cursor)
    sought = Sought(TRUSTED, await model_id_of(context), context.settings.similar_threshold, of_any_kind=True)
    project, namespace = context.envelope.project_named(command.project), context.envelope.namespace
    for _ in range(TRANSACTIONS):
        look = partial(_look, sizes=context.services[Sizes], sought=sought, project=project, position=position)
        looked_up, pairs = await context.store.read(namespace, look)
        if len(pairs) > PAIRS:
            page = ContradictionList(pairs=pairs[:PAIRS], next_cursor=None)
            page.next_cursor = page.positions()[-1]
            return page
        if len(looked_up) < LOOKED_UP_TOGETHER:
            return ContradictionList(pairs=pairs, next_cursor=None)
        position = looked_up[-1].id, None
        if pairs:
            break
    return ContradictionList(pairs=pairs, next_cursor=str(looked_up[-1].id))


def _parse(cursor: str) -> tuple[UUID, UUID | None]:
    """Return the memory at which a page ended, and the older one of its last pair; None: all its pairs are listed."""
    newer, _, older = cursor.partition(" ")
    last, other = parse_uuid(newer), parse_uuid(older)
    if last is None or (older and other is None):
        raise invalid("cursor", "cursor is none that this list gave out.")  # the gateway has checked that, too
    return last, other


async def _look(
    tx: Transaction, sizes: Sizes, sought: Sought, project: str | None, position: tuple[UUID, UUID | None] | None
) -> tuple[list[LookedUp], list[Contradiction]]:
    """Return the next memories that were looked up, and the pairs of these with older ones that disagree."""
    shown = {**visible_now(TRUSTED), "project": project}
    last, other = position or (None, None)
    rows = await tx.rows("contradictions_next", **shown, model_id=sought.model_id, last=last, limit=LOOKED_UP_TOGETHER)
    looked_up = [LookedUp(row["id"], Partition(row["partition"]), row["dimensions"]) for row in rows]
    near = await near_pairs(tx, sizes, looked_up, sought) if looked_up else set()
    ids = {str(memory.id) for memory in looked_up}
    links = await tx.rows(
        "contradictions_linked", relations=[Relation.CONTRADICTS, BOTH_HOLD], ids=[memory.id for memory in looked_up]
    )
    ends = {(frozenset((str(row["id"]), str(row["other_id"]))), row["relation"]) for row in links}
    linked, decided = ({pair for pair, of in ends if of == relation} for relation in (Relation.CONTRADICTS, BOTH_HOLD))
    pairs = {tuple(sorted(pair)) for pair in (*near, *linked) if frozenset(pair) not in decided}
    # Each pair is listed where its newer one is looked up, after what the last page ended with.
    after = None if last is None else (str(last), "" if other is None else str(other))
    mine = sorted(
        (newer, older) for older, newer in pairs if newer in ids and (after is None or (newer, older) < after)
    )
    named = {UUID(memory_id) for pair in mine for memory_id in pair}
    records = [memory_record(row) for row in await tx.rows("contradictions_read", **shown, ids=list(named))]
    memories = {memory.id: memory for memory in records}
    found = []
    for newer, older in reversed(mine):
        if newer in memories and older in memories:
            pieces = compare(memories[newer], memories[older], linked)
            if pieces is not None:
                first, second = sorted((memories[newer], memories[older]), key=_moment)
                found.append(Contradiction(later=second.id, earlier=first.id, said=pieces.earlier, here=pieces.later))
    return looked_up, found
