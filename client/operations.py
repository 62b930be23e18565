"""Every operation of REST. Written by `make clients` from docs/openapi.json: edit neither."""

from typing import Any, Final

from engramq.client.operation import Operation
from engramq.schemas import commands as said

STORE: Final[Operation[said.Stored]] = Operation("POST", "/v1/memories", (), True, {"stored": said.Stored})
RECENT: Final[Operation[said.MemoryList]] = Operation("GET", "/v1/memories", (), False, {"success": said.MemoryList})
SEARCH: Final[Operation[said.MemoryList]] = Operation(
    "POST", "/v1/memories/search", (), False, {"success": said.MemoryList}
)
GET: Final[Operation[said.MemoryFound]] = Operation(
    "GET",
    "/v1/memories/{memory_id}",
    ("memory_id",),
    False,
    {"not_found": said.MemoryFound, "success": said.MemoryFound},
)
UPDATE: Final[Operation[said.MemoryChanged]] = Operation(
    "PATCH",
    "/v1/memories/{memory_id}",
    ("memory_id",),
    True,
    {"not_found": said.MemoryChanged, "restored": said.MemoryChanged, "updated": said.MemoryChanged},
)
FORGET: Final[Operation[said.Forgotten]] = Operation(
    "DELETE",
    "/v1/memories/{memory_id}",
    ("memory_id",),
    True,
    {"archived": said.Forgotten, "erased": said.Forgotten, "not_found": said.Forgotten},
)
SUPERSEDE: Final[Operation[said.Superseded]] = Operation(
    "POST", "/v1/memories/{old_memory_id}/supersede", ("old_memory_id",), True, {"superseded": said.Superseded}
)
RESTORE: Final[Operation[said.MemoryChanged]] = Operation(
    "POST",
    "/v1/memories/{memory_id}/restore",
    ("memory_id",),
    True,
    {"not_found": said.MemoryChanged, "restored": said.MemoryChanged, "updated": said.MemoryChanged},
)
IMPORT_MANY: Final[Operation[said.MemoriesImported]] = Operation(
    "POST", "/v1/memories/import", (), True, {"accepted": said.MemoriesImported}
)
VERIFY: Final[Operation[said.Verified]] = Operation(
    "POST",
    "/v1/memories/{memory_id}/verify",
    ("memory_id",),
    True,
    {"not_found": said.Verified, "success": said.Verified},
)
PROMOTE: Final[Operation[said.Promoted]] = Operation(
    "POST",
    "/v1/memories/{record_id}/promote",
    ("record_id",),
    True,
    {"already_trusted": said.Promoted, "promoted": said.Promoted},
)
CONNECT: Final[Operation[said.Connected]] = Operation("POST", "/v1/links", (), True, {"success": said.Connected})
DISCONNECT: Final[Operation[said.Disconnected]] = Operation(
    "DELETE", "/v1/links", (), True, {"success": said.Disconnected}
)
CONNECT_BY_QUERY: Final[Operation[said.QueryConnected]] = Operation(
    "POST", "/v1/links/by-query", (), True, {"success": said.QueryConnected}
)
CONNECT_MANY: Final[Operation[said.BatchConnected]] = Operation(
    "POST", "/v1/links/batch", (), True, {"success": said.BatchConnected}
)
RECORD_OUTCOME: Final[Operation[said.OutcomeRecorded]] = Operation(
    "POST", "/v1/outcomes", (), True, {"success": said.OutcomeRecorded}
)
ADD_NODE: Final[Operation[said.NodeAdded]] = Operation("POST", "/v1/graph/nodes", (), True, {"success": said.NodeAdded})
GET_NODE: Final[Operation[said.NodeFound | said.NodeMissing]] = Operation(
    "GET", "/v1/graph/nodes", (), False, {"success": said.NodeFound, "not_found": said.NodeMissing}
)
ADD_EDGE: Final[Operation[said.EdgeAdded | said.ChangeNeedsConsent | said.NameAmbiguous]] = Operation(
    "POST",
    "/v1/graph/edges",
    (),
    True,
    {"success": said.EdgeAdded, "consent_required": said.ChangeNeedsConsent, "ambiguous": said.NameAmbiguous},
)
LIST_EDGES: Final[Operation[said.EdgeList | said.EdgesMissing]] = Operation(
    "GET", "/v1/graph/edges", (), False, {"success": said.EdgeList, "not_found": said.EdgesMissing}
)
DELETE_EDGE: Final[Operation[said.GraphDeleted | said.DeletionNeedsConsent]] = Operation(
    "DELETE",
    "/v1/graph/edges/{edge_id}",
    ("edge_id",),
    True,
    {"deleted": said.GraphDeleted, "not_found": said.GraphDeleted, "consent_required": said.DeletionNeedsConsent},
)
DELETE_NODE: Final[Operation[said.GraphDeleted | said.DeletionNeedsConsent]] = Operation(
    "DELETE",
    "/v1/graph/nodes/{node_id}",
    ("node_id",),
    True,
    {"deleted": said.GraphDeleted, "not_found": said.GraphDeleted, "consent_required": said.DeletionNeedsConsent},
)
GET_EDGE: Final[Operation[said.EdgeFound | said.EdgeMissing]] = Operation(
    "GET", "/v1/graph/edge", (), False, {"success": said.EdgeFound, "not_found": said.EdgeMissing}
)
NEIGHBORS: Final[Operation[said.Neighbors | said.WalkStartMissing]] = Operation(
    "GET", "/v1/graph/neighbors", (), False, {"success": said.Neighbors, "not_found": said.WalkStartMissing}
)
FIND_PATH: Final[Operation[said.PathReport | said.WalkStartMissing]] = Operation(
    "GET", "/v1/graph/path", (), False, {"success": said.PathReport, "not_found": said.WalkStartMissing}
)
RECLASSIFY_EDGE: Final[Operation[said.Reclassified]] = Operation(
    "POST",
    "/v1/graph/edges/reclassify",
    (),
    True,
    {
        "success": said.Reclassified,
        "invalid_sector": said.Reclassified,
        "not_found": said.Reclassified,
        "ambiguous": said.Reclassified,
        "consent_required": said.Reclassified,
    },
)
PROPOSE_RECLASSIFICATION: Final[Operation[said.Proposed | said.NotProposed | said.ConsentNotNeeded]] = Operation(
    "POST",
    "/v1/graph/edges/{edge_id}/reclassification",
    ("edge_id",),
    True,
    {
        "proposed": said.Proposed,
        "success": said.NotProposed,
        "invalid_sector": said.NotProposed,
        "not_found": said.NotProposed,
        "ambiguous": said.NotProposed,
        "consent_required": said.NotProposed,
        "not_needed": said.ConsentNotNeeded,
    },
)
DECIDE_PROPOSAL: Final[Operation[said.Decided]] = Operation(
    "POST",
    "/v1/proposals/{proposal_id}/decision",
    ("proposal_id",),
    True,
    {"closed": said.Decided, "not_found": said.Decided, "recorded": said.Decided},
)
LIST_PROPOSALS: Final[Operation[said.ProposalList]] = Operation(
    "GET", "/v1/proposals", (), False, {"success": said.ProposalList}
)
BEGIN_SESSION: Final[Operation[dict[str, Any]]] = Operation("POST", "/v1/sessions", (), False, {})
BREADCRUMBS: Final[Operation[dict[str, Any]]] = Operation("GET", "/v1/sessions/{session}", ("session",), False, {})
GUIDE: Final[Operation[dict[str, Any]]] = Operation("GET", "/v1/guide", (), False, {})
GET_COMMAND: Final[Operation[said.CommandReport]] = Operation(
    "GET",
    "/v1/commands/{command_id}",
    ("command_id",),
    False,
    {
        "pending": said.CommandReport,
        "running": said.CommandReport,
        "done": said.CommandReport,
        "failed": said.CommandReport,
        "unknown": said.CommandReport,
    },
)
AUDIT: Final[Operation[said.AuditList]] = Operation("GET", "/v1/audit", (), False, {"success": said.AuditList})
STATS: Final[Operation[said.Stats]] = Operation("GET", "/v1/stats", (), False, {"success": said.Stats})
