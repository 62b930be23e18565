"""Mark memories of a reply that say otherwise than others there, and list all pairs of a namespace that do.

Nothing is decided: the later memory tells which other it differs from. A trusted memory quotes no untrusted one, so
that no stranger's text comes into it: of two of different trust the untrusted one tells it, whichever is the later.
"""

import time
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from itertools import combinations
from typing import Final, NamedTuple, Self
from uuid import UUID

from msgspec import UNSET

from engramq.schemas.commands import ContradictionList, ListContradictions
from engramq.schemas.contents import preview_of
from engramq.schemas.faults import invalid
from engramq.schemas.ids import parse_uuid
from engramq.schemas.records import Contradiction, Difference, Memory
from engramq.schemas.vocabulary import BOTH_HOLD, Partition, Relation
from engramq.workers.db.memory_rows import visible_now, when_erased
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Sizes
from engramq.workers.memories.disagreement import (
    LOOKED_AT_CHARS,
    PIECE_CHARS,
    DifferingPieces,
    Statement,
    are_other_values,
    differ_in_one_place,
    disagreement,
    forget_texts,
    lone_places,
    read_statement,
)
from engramq.workers.memories.duplicates import LookedUp, Sought, model_id_of, near_pairs
from engramq.workers.runner import Context, handles_without_transaction

LOOKED_UP_TOGETHER: Final = 20  # of one transaction: 3 ms each on two busy cores
TRANSACTIONS: Final = 8  # of a page at most, which ends sooner where something was seen
PAGE_S: Final = 0.03  # after so long a page begins no other transaction
PAIRS: Final = 50  # of a page
MARKED: Final = 20  # the first of a reply
OTHERS: Final = 3  # that one memory of a reply is said to differ from
TRUSTED: Final = (Partition.TRUSTED,)

when_erased(forget_texts)

LinkedIds = frozenset[str]  # the ids of two memories that are linked


class Stated(NamedTuple):
    """The compared part of a memory. `order`: when it happened or was stored, its place in its thread, and its id."""

    id: str
    content: str
    speaker: str | None
    project: str | None
    order: tuple[datetime, int, str]
    valid_from: datetime | None
    valid_until: datetime | None
    is_replaced: bool = False

    @classmethod
    def of(cls, memory: Memory) -> Self:
        """Return what of a memory in a reply is compared."""
        valid_from, valid_until = (
            None if moment is None else datetime.fromisoformat(moment)
            for moment in (memory.valid_from, memory.valid_until)
        )
        is_replaced = memory.superseded_by is not None or memory.superseded_at is not None
        order = memory.moment, memory.position or 0, memory.id
        return cls(
            memory.id, memory.content, memory.speaker, memory.project, order, valid_from, valid_until, is_replaced
        )


def mark_contradictions(
    memories: Sequence[Memory], beside: Sequence[Memory] = (), linked: Collection[LinkedIds] = ()
) -> None:
    """Say of memories of a reply what they differ from, in the reply or `beside` it: almost in it.

    `linked`: those that an agent linked as contradicting each other.
    """
    compared = [*memories[:MARKED], *beside]
    shown = len(compared) - len(beside)
    pairs = pairs_that_may_disagree([memory.content for memory in compared])
    if linked:
        pairs.update(
            pair
            for pair in combinations(range(len(compared)), 2)
            if frozenset(compared[at].id for at in pair) in linked
        )
    for place, other_place in sorted(pair for pair in pairs if pair[0] < shown):
        mark_pair(compared[place], compared[other_place], linked, beside=other_place >= shown)


def pairs_that_may_disagree(texts: Sequence[str]) -> set[tuple[int, int]]:
    """Return the places of each two texts of which `disagreement` may find pieces: of nearly all pairs it finds none.

    Each word is looked up once: to compare a reply's texts two by two takes ten times as long.
    """
    pairs, before, holding = set[tuple[int, int]](), list[tuple[int, Statement]](), dict[str, list[int]]()
    for place, text in enumerate(texts):
        stated = read_statement(text[:LOOKED_AT_CHARS]).statements
        for statement in stated:
            shared = dict[int, int]()
            for key in statement.keys:
                for number in holding.get(key, ()):
                    shared[number] = shared.get(number, 0) + 1
            for number, words in shared.items():
                other_place, other = before[number]
                says_never = not (statement.least and other.least)
                # Most pairs end here: a call for each would take as long as all the rest.
                if says_never or (
                    words >= statement.least and words >= other.least and _may_disagree(statement, other, words)
                ):
                    pairs.add((other_place, place))
        for statement in stated:
            for key in statement.keys:
                holding.setdefault(key, []).append(len(before))
            before.append((place, statement))
    return pairs


def _may_disagree(first: Statement, other: Statement, shared: int) -> bool:
    """Say whether two statements that share so many words have what all that disagree have in common."""
    if not differ_in_one_place(first, other, shared):
        return False
    if first.negated != other.negated:
        return True
    mine, theirs = lone_places(first, other, first.keys & other.keys)
    return bool(mine) and (  # which of them is the earlier is not known here
        are_other_values(first, other, mine, theirs) or are_other_values(other, first, theirs, mine)
    )


def mark_pair(memory: Memory, other: Memory, linked: Collection[LinkedIds] = (), *, beside: bool = False) -> None:
    """Say of one of two memories where it differs from the other: in the reply, or `beside` it."""
    found = find_disagreement(Stated.of(memory), Stated.of(other), linked)
    if found is None:
        return
    is_later = memory.id == found.later
    tells = is_later or beside
    if memory.partition is not other.partition:
        tells = memory.partition is Partition.UNTRUSTED
        if beside and not tells:
            return
    carrier, quoted = (memory, other) if tells else (other, memory)
    said, here = found.pieces if tells == is_later else reversed(found.pieces)
    differences = [] if carrier.differs_from is UNSET else carrier.differs_from
    if len(differences) < OTHERS:
        newer = UNSET if tells == is_later else True
        carrier.differs_from = [*differences, Difference(id=quoted.id, said=said, here=here, newer=newer)]


class Disagreement(NamedTuple):
    """The ids of two memories that disagree, in the order of their time, and the pieces in which they do."""

    earlier: str
    later: str
    pieces: DifferingPieces


def find_disagreement(memory: Stated, other: Stated, linked: Collection[LinkedIds] = ()) -> Disagreement | None:
    """Return where two memories disagree; None where they do not.

    Two memories do not disagree if one has replaced the other, or if they hold at different times.
    """
    if memory.is_replaced or other.is_replaced:
        return None
    if memory.project != other.project and None not in (memory.project, other.project):
        return None
    for one, next_one in ((memory, other), (other, memory)):
        if one.valid_until is not None and next_one.valid_from is not None and one.valid_until <= next_one.valid_from:
            return None
    earlier, later = (memory, other) if memory.order < other.order else (other, memory)
    pieces = disagreement(earlier.content, later.content, same_speaker=earlier.speaker == later.speaker)
    if pieces is None and frozenset((memory.id, other.id)) in linked:
        pieces = DifferingPieces(*(preview_of(each.content, PIECE_CHARS) for each in (earlier, later)))
    return None if pieces is None else Disagreement(earlier.id, later.id, pieces)


@handles_without_transaction(ListContradictions)
async def list_contradictions(command: ListContradictions, context: Context) -> ContradictionList:
    """List memories that disagree with one of their nearest, newest first; bounded work, so a page may be empty.

    Raises EngramqError: `unavailable` without a model.
    """
    position = None if command.cursor is UNSET else _parse(command.cursor)
    sought = Sought(TRUSTED, await model_id_of(context), context.settings.similar_threshold, of_any_kind=True)
    project, namespace = context.envelope.project_named(command.project), context.envelope.namespace
    began = time.monotonic()
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
        if pairs or time.monotonic() - began > PAGE_S:
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
    memories = {}
    for row in await tx.rows("contradictions_read", **shown, ids=list(named)):
        known = str(row["id"])
        order = row["moment"], row["position"] or 0, known
        memories[known] = Stated(
            known, row["content"], row["speaker"], row["project"], order, row["valid_from"], row["valid_until"]
        )
    found = []
    for newer, older in reversed(mine):
        if newer in memories and older in memories:
            differing = find_disagreement(memories[newer], memories[older], linked)
            if differing is not None:
                earlier, later, (said, here) = differing
                found.append(Contradiction(later=later, earlier=earlier, said=said, here=here))
    return looked_up, found
