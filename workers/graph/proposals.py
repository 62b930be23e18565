"""Proposals as those read them who are to decide: what each would do, in words, and to what."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from engramq.schemas import limits
from engramq.schemas.command_line import count_of
from engramq.schemas.contents import CUT
from engramq.schemas.faults import invalid
from engramq.schemas.ids import format_time, list_position, parse_list_position, parse_time
from engramq.schemas.records import CountedNode, EdgeChange, GraphEdge, Proposal
from engramq.schemas.vocabulary import ProposalAction, ProposalState, Sector
from engramq.workers.db.json_values import same
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.graph.edge_rules import is_constitutive
from engramq.workers.graph.reads import graph_edge

LIST: Final = sql("list_proposals")
EDGES: Final = sql("named_edges")
NAMES: Final = sql("edge_names")
NODES: Final = sql("counted_nodes")

PAGE_BYTES: Final = 2 * 1024 * 1024  # of the records of a page, but for its first

_EDGES_NAMED: Final = 10  # of those that a node would take along
_VALUES_NAMED: Final = 10  # of those that a change would write
_VALUE_CHARS: Final = 80  # of a value or a key in words, as JSON
_PROPERTIES: Final = "properties"
_END: Final = "valid_until"


async def list_proposals(
    tx: Transaction, state: ProposalState | None, cursor: str | None
) -> tuple[list[Proposal], str | None]:
    """Return the newest proposals of a state, or of all, from a position on, and the position of the next page."""
    after = None if cursor is None else parse_list_position(cursor)
    if cursor is not None and after is None:
        raise invalid("cursor", "cursor is none that this list gave out.")
    before, before_id = after or (None, None)
    rows = await tx.rows(
        LIST,
        state=state,
        principals=limits.CONSENT_PRINCIPALS,
        before=before,
        before_id=before_id,
        limit=limits.PROPOSALS_SHOWN + 1,
    )
    shown = _within_bytes(await _records(tx, rows[: limits.PROPOSALS_SHOWN]))
    more = len(rows) > len(shown)
    return shown, list_position(shown[-1].created_at, shown[-1].proposal_id) if more else None


def _within_bytes(records: Sequence[Proposal]) -> list[Proposal]:
    """Return the first records that have no more than PAGE_BYTES together, as JSON; one in any case."""
    taken = itertools.accumulate(len(msgspec.json.encode(one)) for one in records)
    return [
        one for number, (one, size) in enumerate(zip(records, taken, strict=True)) if not number or size <= PAGE_BYTES
    ]


async def _records(tx: Transaction, rows: Sequence[Row]) -> list[Proposal]:
    of_edges, of_nodes = [row for row in rows if _on_edge(row)], [row for row in rows if not _on_edge(row)]
    targets, whole = ({row["target_id"] for row in some} for some in (of_edges, of_nodes))
    covered = {one for row in of_nodes for one in row["covers"][:_EDGES_NAMED]}
    edges = {row["id"]: graph_edge(row) for row in await tx.rows(EDGES, ids=list(targets))} if targets else {}
    nodes = {row["id"]: _node(row) for row in await tx.rows(NODES, ids=list(whole))} if whole else {}
    names = {row["id"]: _named(row) for row in await tx.rows(NAMES, ids=list(covered))} if covered else {}
    return [_record(row, edges.get(row["target_id"]), nodes.get(row["target_id"]), names) for row in rows]


def _record(row: Row, edge: GraphEdge | None, node: CountedNode | None, names: Mapping[UUID, str]) -> Proposal:
    on_edge = _on_edge(row)
    change = None if row["change"] is None else _change(row["change"], edge)
    return Proposal(
        proposal_id=str(row["id"]),
        action=ProposalAction(row["action"]),
        edge_id=str(row["target_id"]) if on_edge else None,
        node_id=None if on_edge else str(row["target_id"]),
        new_sector=Sector(row["new_sector"]) if row["new_sector"] else None,
        state=ProposalState(row["state"]),
        proposed_by=row["proposed_by"],
        reason=row["reason"],
        approvals=len(row["approved_by"]),
        approved_by=list(row["approved_by"]),
        created_at=format_time(row["created_at"]),
        expires_at=format_time(row["expires_at"]),
        effect=_effect_on_edge(row, edge, change) if on_edge else _effect_on_node(row, node, names),
        edge=edge,
        node=node,
        change=change,
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
    named = [names[one] for one in row["covers"][:_EDGES_NAMED] if one in names]
    others = len(row["covers"]) - _EDGES_NAMED
    listed = "; ".join(named) + (f"; and {others} more" if others > 0 else "")
    count = count_of(node.edge_count, "edge")
    return f"Delete the node {node.name} ({node.label}) and its {count}, constitutive among them: {listed}."


def _differences(change: EdgeChange) -> str:
    said = list(_said(change))
    others = len(said) - _VALUES_NAMED
    return "; ".join(said[:_VALUES_NAMED]) + (f"; and {others} more" if others > 0 else "")


def _said(change: EdgeChange) -> Iterator[str]:
    """Give each value in words, as it is and as it would be; of one that is so already, only that."""
    for name in (name for name in change.new if name != _PROPERTIES):
        yield _from_to(name, change.old, name, change.new)
    old, new = change.old.get(_PROPERTIES, {}), change.new.get(_PROPERTIES, {})
    for key in sorted(new):
        yield _from_to(f"property {_json(key)}", old, key, new)


def _from_to(name: str, old: Mapping[str, Any], key: str, new: Mapping[str, Any]) -> str:
    if key not in old:
        return f"{name} is added: {_json(new[key])}"
    if same(old[key], new[key]):
        return f"{name} is {_json(new[key])} already"
    return f"{name} from {_json(old[key])} to {_json(new[key])}"


def _ending(edge: GraphEdge, change: EdgeChange) -> str:
    """Say what else becomes of the edge: that it is protected no longer, or that reads leave it out."""
    now = is_constitutive(edge.properties)
    then = is_constitutive({**edge.properties, **change.new.get(_PROPERTIES, {})})
    said = " After that it is no longer constitutive." if now and not then else ""
    end = change.new.get(_END)
    if end is not None and _has_passed(end) and not (edge.valid_until and _has_passed(edge.valid_until)):
        said += " It has ended then: lists, neighbours and paths leave it out, but for an as_of before that."
    return said


def _has_passed(moment: str) -> bool:
    return parse_time(moment) <= datetime.now(UTC)


def _json(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}{CUT}"


def _words(edge: GraphEdge) -> str:
    source, target = edge.source, edge.target
    return f"{source.name} ({source.label}) --{edge.relation}--> {target.name} ({target.label})"


def _named(row: Row) -> str:
    source, target = (f"{row[f'{end}_name']} ({row[f'{end}_label']})" for end in ("source", "target"))
    return f"{source} --{row['relation']}--> {target}"


def _on_edge(row: Row) -> bool:
    return list(row["covers"]) == [row["target_id"]]


def _node(row: Row) -> CountedNode:
    return CountedNode(node_id=str(row["id"]), label=row["label"], name=row["name"], edge_count=row["edge_count"])
