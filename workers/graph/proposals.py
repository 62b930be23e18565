"""List proposals for those who decide: what each would do, in words, and to what."""

import itertools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from engramq.schemas import limits
from engramq.schemas.command_line import count_of
from engramq.schemas.commands import ListProposals, ProposalList
from engramq.schemas.contents import CUT, preview_of
from engramq.schemas.digests import digest_of, select_judged
from engramq.schemas.faults import invalid
from engramq.schemas.fields import or_none
from engramq.schemas.ids import format_time, list_position, parse_list_position, parse_time
from engramq.schemas.records import CountedNode, EdgeChange, GraphEdge, Memory, Proposal
from engramq.schemas.vocabulary import MemoryState, ProposalAction, ProposalState, Sector
from engramq.workers.db.memory_rows import read_memories
from engramq.workers.db.transaction import Row, Transaction, same
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.graph.edge_rules import is_constitutive
from engramq.workers.graph.reads import graph_edge, read_counted_node
from engramq.workers.runner import Context, handles
from engramq.workers.trust import may_vouch

PAGE_BYTES: Final = 2 * 1024 * 1024  # of the records of a page, besides its first

_EDGES_NAMED: Final = 10  # of those that a node would take along
_VALUES_NAMED: Final = 10  # of those that a change would write
OPEN: Final = (ProposalState.PENDING, ProposalState.APPROVED)
SEEN: Final = "seen"  # in the change of a proposal to share: the digest of the memory when it was made
_VALUE_CHARS: Final = 80  # of a value or a key in words, as JSON
_PROPERTIES: Final = "properties"
_END: Final = "valid_until"


@handles(ListProposals)
async def list_proposals(tx: Transaction, command: ListProposals, context: Context) -> ProposalList:
    """List proposals, newest first; a cursor is the position that the last page's next_cursor was."""
    cursor = or_none(command.cursor)
    after = None if cursor is None else parse_list_position(cursor)
    if cursor is not None and after is None:
        raise invalid("cursor", "cursor is none that this list gave out.")
    before, before_id = after or (None, None)
    principal = context.envelope.principal
    rows = await tx.rows(
        "list_proposals",
        reader=None if principal.untrusted else principal.name,
        decides=may_vouch(principal),
        state=or_none(command.state),
        principals=limits.CONSENT_PRINCIPALS,
        before=before,
        before_id=before_id,
        limit=limits.PROPOSALS_SHOWN + 1,
    )
    records = await records_of(tx, rows[: limits.PROPOSALS_SHOWN])
    sizes = itertools.accumulate(len(msgspec.json.encode(record)) for record in records)
    # The first record is shown however large it is.
    shown = [
        record
        for index, (record, size) in enumerate(zip(records, sizes, strict=True))
        if not index or size <= PAGE_BYTES
    ]
    if len(rows) <= len(shown):
        return ProposalList(proposals=shown, truncated=False, next_cursor=None)
    position = list_position(shown[-1].created_at, shown[-1].proposal_id)
    return ProposalList(proposals=shown, truncated=True, next_cursor=position)


async def records_of(tx: Transaction, rows: Sequence[Row]) -> list[Proposal]:
    """Return the proposals that rows are, each with what it is about as that is now."""
    on_graph = [row for row in rows if not _shares(row)]
    of_edges, of_nodes = (
        [row for row in on_graph if _is_on_edge(row)],
        [row for row in on_graph if not _is_on_edge(row)],
    )
    targets, whole = ({row["target_id"] for row in some} for some in (of_edges, of_nodes))
    covered = {edge_id for row in of_nodes for edge_id in row["covers"][:_EDGES_NAMED]}
    edges = {row["id"]: graph_edge(row) for row in await tx.rows("named_edges", ids=list(targets))} if targets else {}
    nodes = (
        {row["id"]: read_counted_node(row) for row in await tx.rows("counted_nodes", ids=list(whole))} if whole else {}
    )
    names = {row["id"]: _name_edge(row) for row in await tx.rows("edge_names", ids=list(covered))} if covered else {}
    memories = await _read_to_share(tx, [row for row in rows if _shares(row)])
    return [
        _sharing(row, memories.get(row["target_id"]))
        if _shares(row)
        else _record(row, edges.get(row["target_id"]), nodes.get(row["target_id"]), names)
        for row in rows
    ]


async def _read_to_share(tx: Transaction, rows: Sequence[Row]) -> dict[UUID, Memory]:
    """Return the memories that proposals would share: their owners have asked others to judge them."""
    if not rows:
        return {}
    async with tx.seeing(EVERYTHING):
        return await read_memories(tx, [row["target_id"] for row in rows])


def _sharing(row: Row, memory: Memory | None) -> Proposal:
    """Return a proposal to share a memory, with all of it that is judged; with nothing of it that nobody asked for.

    Its reason, which is about the memory, is shown as long as the memory is.
    """
    about: dict[str, Any] = {"memory_id": str(row["target_id"]), "reason": None}
    if memory is None:
        return _proposal(row, "Nothing: the memory is gone.", **about)
    if row["state"] not in OPEN:
        return _proposal(row, f"Nothing any more: it is {row['state']}.", **about)
    if memory.state is MemoryState.ARCHIVED:
        return _proposal(row, "Nothing, as long as the memory is archived.", **about)
    if row["change"] != {SEEN: digest_of(memory)}:
        return _proposal(row, "Nothing: the memory has changed since. To share it takes another proposal.", **about)
    effect = f"Let everybody see this memory: {preview_of(memory.content, limits.PREVIEW_CHARS)}"
    return _proposal(row, effect, **{**about, "reason": row["reason"]}, change=EdgeChange(new=select_judged(memory)))


def _record(row: Row, edge: GraphEdge | None, node: CountedNode | None, names: Mapping[UUID, str]) -> Proposal:
    on_edge = _is_on_edge(row)
    change = None if row["change"] is None else _change(row["change"], edge)
    effect = _effect_on_edge(row, edge, change) if on_edge else _effect_on_node(row, node, names)
    about = {"edge_id" if on_edge else "node_id": str(row["target_id"])}
    return _proposal(row, effect, **about, reason=row["reason"], edge=edge, node=node, change=change)


def _proposal(row: Row, effect: str, *, reason: str | None, **about: Any) -> Proposal:
    return Proposal(
        **{"edge_id": None, "node_id": None, **about},
        proposal_id=str(row["id"]),
        action=ProposalAction(row["action"]),
        new_sector=Sector(row["new_sector"]) if row["new_sector"] else None,
        state=ProposalState(row["state"]),
        proposed_by=row["proposed_by"],
        reason=reason,
        approvals=len(row["approved_by"]),
        approved_by=list(row["approved_by"]),
        created_at=format_time(row["created_at"]),
        expires_at=format_time(row["expires_at"]),
        effect=effect,
    )


def _change(new: Mapping[str, Any], edge: GraphEdge | None) -> EdgeChange:
    if edge is None:
        return EdgeChange(new=dict(new))
    old = {name: getattr(edge, name) for name in new}
    if _PROPERTIES in new:
        old[_PROPERTIES] = {key: edge.properties[key] for key in new[_PROPERTIES] if key in edge.properties}
    return EdgeChange(old=old, new=dict(new))


def _effect_on_edge(row: Row, edge: GraphEdge | None, change: EdgeChange | None) -> str:
    if edge is None:
        return "Nothing: the edge is gone."
    if row["action"] == ProposalAction.DELETE:
        return f"Delete the edge {_words(edge)}."
    if change is not None:
        return f"Change the edge {_words(edge)}: {_differences(change)}.{_ending(edge, change)}"
    return f"Give the edge {_words(edge)} the sector {row['new_sector']}; now it is {edge.memory_sector}."


def _effect_on_node(row: Row, node: CountedNode | None, names: Mapping[UUID, str]) -> str:
    if node is None:
        return "Nothing: the node is gone."
    named = [names[edge_id] for edge_id in row["covers"][:_EDGES_NAMED] if edge_id in names]
    others = len(row["covers"]) - _EDGES_NAMED
    listed = "; ".join(named) + (f"; and {others} more" if others > 0 else "")
    count = count_of(node.edge_count, "edge")
    return f"Delete the node {node.name} ({node.label}) and its {count}, constitutive among them: {listed}."


def _differences(change: EdgeChange) -> str:
    """Name each value as it is and as it would be; of one that is so already, only that."""
    old, new = change.old.get(_PROPERTIES, {}), change.new.get(_PROPERTIES, {})
    values = [(name, change.old, change.new, name) for name in change.new if name != _PROPERTIES]
    values += [(f"property {_json(key)}", old, new, key) for key in sorted(new)]
    words = []
    for name, before, after, key in values[:_VALUES_NAMED]:
        if key not in before:
            words.append(f"{name} is added: {_json(after[key])}")
        elif same(before[key], after[key]):
            words.append(f"{name} is {_json(after[key])} already")
        else:
            words.append(f"{name} from {_json(before[key])} to {_json(after[key])}")
    others = len(values) - _VALUES_NAMED
    return "; ".join(words) + (f"; and {others} more" if others > 0 else "")


def _ending(edge: GraphEdge, change: EdgeChange) -> str:
    """Say what else becomes of the edge: that it is protected no longer, or that reads leave it out."""
    now = is_constitutive(edge.properties)
    then = is_constitutive({**edge.properties, **change.new.get(_PROPERTIES, {})})
    words = " After that it is no longer constitutive." if now and not then else ""
    end = change.new.get(_END)
    if end is not None and _has_passed(end) and not (edge.valid_until and _has_passed(edge.valid_until)):
        words += " It has ended then: lists, neighbours and paths leave it out, except for an as_of before that."
    return words


def _has_passed(moment: str) -> bool:
    return parse_time(moment) <= datetime.now(UTC)


def _json(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}{CUT}"


def _words(edge: GraphEdge) -> str:
    source, target = edge.source, edge.target
    return f"{source.name} ({source.label}) --{edge.relation}--> {target.name} ({target.label})"


def _name_edge(row: Row) -> str:
    source, target = (f"{row[f'{end}_name']} ({row[f'{end}_label']})" for end in ("source", "target"))
    return f"{source} --{row['relation']}--> {target}"


def _is_on_edge(row: Row) -> bool:
    return list(row["covers"]) == [row["target_id"]]


def _shares(row: Row) -> bool:
    return bool(row["action"] == ProposalAction.SHARE)
