"""Commands that bring deleted edges and nodes of the knowledge graph back, for operators; no tools."""

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands.base import Command, Reply, WriteReply
from engramq.schemas.fields import Note
from engramq.schemas.records import GraphDeletion, NotRestored
from engramq.schemas.vocabulary import Scope, Thing, WorkerKind


class RestoreGraph(Command, frozen=True, kw_only=True, omit_defaults=True, tag="restore_graph"):
    """Undo a deletion in the graph: `audit_id` is the id of its entry in the audit log."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.EDGES
    scope: ClassVar[Scope] = Scope.ADMIN
    write: ClassVar[bool] = True

    audit_id: Annotated[int, Meta(ge=1, le=limits.AUDIT_ID_MAX)]
    reason: Note | UnsetType = UNSET


class GraphRestored(WriteReply, kw_only=True, tag="graph_restored"):
    """What came back of a deletion: the edge or node as it was, and how many edges.

    `not_restored` are the first edges of those that could not, `not_restored_count` all of them: another call brings
    them back once nothing stands in their way. `edges_purged` are those that a purge has erased. Where nothing
    came back, nothing has changed, and `error` says why.
    """

    status: Literal["restored", "not_restored", "already_restored", "not_found"]
    audit_id: int
    edge_id: str | UnsetType = UNSET
    node_id: str | UnsetType = UNSET
    edges_restored: int = 0
    not_restored: list[NotRestored] = []
    not_restored_count: int = 0
    edges_purged: int = 0
    error: str | UnsetType = UNSET
    what: Thing | UnsetType = UNSET
    hint: str | UnsetType = UNSET


class ListDeleted(Command, frozen=True, kw_only=True, omit_defaults=True, tag="list_deleted"):
    """List the deletions in the graph that can be undone, newest first."""

    mailbox: ClassVar[WorkerKind] = WorkerKind.RECALL
    scope: ClassVar[Scope] = Scope.ADMIN

    limit: Annotated[int, Meta(ge=1, le=limits.DELETIONS_SHOWN)] = limits.DELETIONS_SHOWN


class DeletedList(Reply, kw_only=True, tag="deleted"):
    """The newest deletions; `truncated`: there are older ones."""

    deletions: list[GraphDeletion]
    truncated: bool
