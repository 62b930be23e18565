"""List all commands, replies and tools, and the unions of those that travel.

They follow from what the files of the areas declare. To add a file, import it here, and name it in AREAS if it declares
tools.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

from engramq.schemas.commands import (
    base,
    bulk,
    changes,
    consent,
    evidence,
    graph,
    graph_reads,
    links,
    memories,
    receipts,
    sessions,
    sharing,
    surveys,
    system,
    trust,
)
from engramq.schemas.commands.access import *
from engramq.schemas.commands.base import *
from engramq.schemas.commands.bulk import *
from engramq.schemas.commands.changes import *
from engramq.schemas.commands.consent import *
from engramq.schemas.commands.evidence import *
from engramq.schemas.commands.graph import *
from engramq.schemas.commands.graph_reads import *
from engramq.schemas.commands.links import *
from engramq.schemas.commands.memories import *
from engramq.schemas.commands.receipts import *
from engramq.schemas.commands.sessions import *
from engramq.schemas.commands.sharing import *
from engramq.schemas.commands.surveys import *
from engramq.schemas.commands.system import *
from engramq.schemas.commands.trust import *


def _subclasses(cls: type[Any]) -> list[type[Any]]:
    """Return all classes below this one, except the shared ones of base.py."""
    below: list[type[Any]] = []
    for subclass in cls.__subclasses__():
        below += ([] if subclass.__module__ == base.__name__ else [subclass]) + _subclasses(subclass)
    return below


COMMANDS: Final[tuple[type[base.Command], ...]] = tuple(_subclasses(base.Command))
REPLIES: Final[tuple[type[base.Reply], ...]] = tuple(_subclasses(base.Reply))

if TYPE_CHECKING:
    AnyCommand: TypeAlias = base.Command
    AnyReply: TypeAlias = base.Reply
else:  # a decoder has to know every tag
    AnyCommand = Union[COMMANDS]  # noqa: UP007 - of a tuple
    AnyReply = Union[REPLIES]  # noqa: UP007 - of a tuple

# The files that declare tools, by the area that the guide lists them under.
AREAS: Final[Mapping[str, tuple[ModuleType, ...]]] = {
    "memories": (memories, evidence, surveys, changes, bulk),
    "trust": (trust, sharing),
    "links": (links,),
    "knowledge graph": (graph, graph_reads),
    "sectors of edges, consent": (consent,),
    "working": (sessions, system),
}


def tools_of(area: str) -> tuple[base.Tool, ...]:
    """Return the tools of an area, as its files declare them."""
    return tuple(value for module in AREAS[area] for value in vars(module).values() if isinstance(value, base.Tool))


# Every tool, in the order in which clients see them.
TOOLS: Final[Mapping[str, base.Tool]] = {each.name: each for area in AREAS for each in tools_of(area)}

# The tool to call in place of one that went, for callers and settings that name that one.
FORMER_TOOLS: Final[Mapping[str, str]] = {
    "propose_reclassification": "Call reclassify_memory_sector: it makes or joins the proposal itself."
}

# What operators' commands call at a gateway elsewhere, whatever tools it lists for agents.
OPERATOR_TOOLS: Final[tuple[base.Tool, ...]] = (
    system.LIST_AUDIT,
    base.unlisted(receipts.MakeReceipt, receipts.ReceiptMade, 'make_receipt(command_id="<id>")'),
    base.unlisted(receipts.VerifyAudit, receipts.AuditVerified, "verify_audit()"),
    system.GET_COMMAND,
    base.unlisted(graph.ListDeleted, graph.DeletedList, "list_deleted()"),
    base.unlisted(graph.RestoreGraph, graph.GraphRestored, "restore_graph(audit_id=1)"),
    base.unlisted(evidence.ReportEvidence, evidence.EvidenceReported, "report_evidence(found=[...])"),
    base.unlisted(trust.PurgeMemories, trust.Purged, 'purge_memories(created_by="crawler")'),
    base.unlisted(bulk.ImportBatch, bulk.BatchImported, "import_batch(records=[...])"),
    base.unlisted(bulk.RenameProject, bulk.ProjectRenamed, 'rename_project(old_name="rover-fix", new_name="rover")'),
    base.unlisted(bulk.FindDuplicates, bulk.DuplicatesFound, 'find_duplicates(by="text")'),
    base.unlisted(bulk.GroupDuplicates, bulk.DuplicatesGrouped, 'group_duplicates(alike=[["<id>", "<id>"]])'),
    base.unlisted(bulk.MergeDuplicates, bulk.DuplicatesMerged, "merge_duplicates(groups=[...], similarity=0.9)"),
)
