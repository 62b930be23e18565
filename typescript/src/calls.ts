/** The calls of `Memory`. Written by `make generate` from docs/openapi.json: edit neither. */

import type { Operation, Options } from "./operation.js";
import type { components } from "./schema.js";

type Said = components["schemas"];

export const OPERATIONS = {
  store_memory: {
    method: "POST",
    path: "/v1/memories",
    write: true,
    statuses: ["stored"],
  },
  list_recent_memories: {
    method: "GET",
    path: "/v1/memories",
    write: false,
    statuses: ["success"],
  },
  search_memories: {
    method: "POST",
    path: "/v1/memories/search",
    write: false,
    statuses: ["success"],
  },
  get_memory: {
    method: "GET",
    path: "/v1/memories/{memory_id}",
    write: false,
    statuses: ["not_found", "success"],
  },
  update_memory: {
    method: "PATCH",
    path: "/v1/memories/{memory_id}",
    write: true,
    statuses: ["not_found", "restored", "updated"],
  },
  forget_memory: {
    method: "DELETE",
    path: "/v1/memories/{memory_id}",
    write: true,
    statuses: ["archived", "erased", "not_found"],
  },
  list_standing: {
    method: "GET",
    path: "/v1/standing",
    write: false,
    statuses: ["success"],
  },
  why: {
    method: "GET",
    path: "/v1/memories/{memory_id}/why",
    write: false,
    statuses: ["not_found", "success"],
  },
  survey_memories: {
    method: "POST",
    path: "/v1/memories/survey",
    write: false,
    statuses: ["success"],
  },
  supersede_memory: {
    method: "POST",
    path: "/v1/memories/{old_memory_id}/supersede",
    write: true,
    statuses: ["superseded"],
  },
  restore_memory: {
    method: "POST",
    path: "/v1/memories/{memory_id}/restore",
    write: true,
    statuses: ["not_found", "restored", "updated"],
  },
  import_memories: {
    method: "POST",
    path: "/v1/memories/import",
    write: true,
    statuses: ["accepted"],
  },
  verify_memory: {
    method: "POST",
    path: "/v1/memories/{memory_id}/verify",
    write: true,
    statuses: ["not_found", "success"],
  },
  memory_promote_to_trusted: {
    method: "POST",
    path: "/v1/memories/{record_id}/promote",
    write: true,
    statuses: ["already_trusted", "promoted"],
  },
  list_contradictions: {
    method: "GET",
    path: "/v1/contradictions",
    write: false,
    statuses: ["success"],
  },
  share_memory: {
    method: "POST",
    path: "/v1/memories/{memory_id}/share",
    write: true,
    statuses: ["consent_required", "not_found", "shared"],
  },
  unshare_memory: {
    method: "POST",
    path: "/v1/memories/{memory_id}/unshare",
    write: true,
    statuses: ["not_found", "private", "refused"],
  },
  connect: {
    method: "POST",
    path: "/v1/links",
    write: true,
    statuses: ["success"],
  },
  disconnect: {
    method: "DELETE",
    path: "/v1/links",
    write: true,
    statuses: ["success"],
  },
  connect_by_query: {
    method: "POST",
    path: "/v1/links/by-query",
    write: true,
    statuses: ["success"],
  },
  connects: {
    method: "POST",
    path: "/v1/links/batch",
    write: true,
    statuses: ["success"],
  },
  record_outcome: {
    method: "POST",
    path: "/v1/outcomes",
    write: true,
    statuses: ["success"],
  },
  graph_add_node: {
    method: "POST",
    path: "/v1/graph/nodes",
    write: true,
    statuses: ["success"],
  },
  get_node_by_name: {
    method: "GET",
    path: "/v1/graph/nodes",
    write: false,
    statuses: ["success", "not_found"],
  },
  graph_add_edge: {
    method: "POST",
    path: "/v1/graph/edges",
    write: true,
    statuses: ["success", "consent_required", "ambiguous"],
  },
  graph_list_edges: {
    method: "GET",
    path: "/v1/graph/edges",
    write: false,
    statuses: ["success", "not_found"],
  },
  graph_delete_edge: {
    method: "DELETE",
    path: "/v1/graph/edges/{edge_id}",
    write: true,
    statuses: ["deleted", "not_found", "consent_required"],
  },
  graph_delete_node: {
    method: "DELETE",
    path: "/v1/graph/nodes/{node_id}",
    write: true,
    statuses: ["deleted", "not_found", "consent_required"],
  },
  get_edge: {
    method: "GET",
    path: "/v1/graph/edge",
    write: false,
    statuses: ["success", "not_found"],
  },
  graph_query_neighbors: {
    method: "GET",
    path: "/v1/graph/neighbors",
    write: false,
    statuses: ["success", "not_found"],
  },
  graph_find_path: {
    method: "GET",
    path: "/v1/graph/path",
    write: false,
    statuses: ["success", "not_found"],
  },
  reclassify_memory_sector: {
    method: "POST",
    path: "/v1/graph/edges/reclassify",
    write: true,
    statuses: ["success", "invalid_sector", "not_found", "ambiguous", "consent_required"],
  },
  decide_proposal: {
    method: "POST",
    path: "/v1/proposals/{proposal_id}/decision",
    write: true,
    statuses: ["closed", "not_found", "recorded"],
  },
  list_proposals: {
    method: "GET",
    path: "/v1/proposals",
    write: false,
    statuses: ["success"],
  },
  begin_session: {
    method: "POST",
    path: "/v1/sessions",
    write: false,
    statuses: ["success"],
  },
  get_breadcrumbs: {
    method: "GET",
    path: "/v1/sessions/{session}",
    write: false,
    statuses: ["success"],
  },
  guide: {
    method: "GET",
    path: "/v1/guide",
    write: false,
    statuses: ["success", "not_found"],
  },
  get_command: {
    method: "GET",
    path: "/v1/commands/{command_id}",
    write: false,
    statuses: ["pending", "running", "done", "failed", "unknown"],
  },
  audit: {
    method: "GET",
    path: "/v1/audit",
    write: false,
    statuses: ["success"],
  },
  memory_stats: {
    method: "GET",
    path: "/v1/stats",
    write: false,
    statuses: ["success"],
  },
} as const satisfies Record<string, Operation>;

/** One method an operation; each rejects with an EngramqFailure when it has no reply. */
export abstract class Calls {
  /** Carry a call out and return its reply. */
  protected abstract call(operation: Operation, given: Readonly<Record<string, unknown>>): Promise<never>;

  /** Keep one fact for later conversations. */
  store(
    content: Options<"store_memory", never>["content"],
    options: Options<"store_memory", "content"> = {},
  ): Promise<Said["Stored"]> {
    return this.call(OPERATIONS.store_memory, { content, ...options });
  }

  /** List memories, newest first. */
  recent(
    options: Options<"list_recent_memories", never> = {},
  ): Promise<Said["MemoryList"]> {
    return this.call(OPERATIONS.list_recent_memories, { ...options });
  }

  /** Find memories by meaning and words. */
  search(
    query: Options<"search_memories", never>["query"],
    options: Options<"search_memories", "query"> = {},
  ): Promise<Said["MemoryList"]> {
    return this.call(OPERATIONS.search_memories, { query, ...options });
  }

  /** Read one memory by id, with its links. */
  get(
    memory_id: Options<"get_memory", never>["memory_id"],
    options: Options<"get_memory", "memory_id"> = {},
  ): Promise<Said["MemoryFound"]> {
    return this.call(OPERATIONS.get_memory, { memory_id, ...options });
  }

  /** Correct what is said about a memory, not its content: date, speaker, sector. */
  update(
    memory_id: Options<"update_memory", never>["memory_id"],
    options: Options<"update_memory", "memory_id"> = {},
  ): Promise<Said["MemoryChanged"]> {
    return this.call(OPERATIONS.update_memory, { memory_id, ...options });
  }

  /** Hide a memory, or with erase remove it for good. */
  forget(
    memory_id: Options<"forget_memory", never>["memory_id"],
    options: Options<"forget_memory", "memory_id"> = {},
  ): Promise<Said["Forgotten"]> {
    return this.call(OPERATIONS.forget_memory, { memory_id, ...options });
  }

  /** List the user's standing instructions. */
  standing(
    options: Options<"list_standing", never> = {},
  ): Promise<Said["MemoryList"]> {
    return this.call(OPERATIONS.list_standing, { ...options });
  }

  /** See why a memory is known. */
  why(
    memory_id: Options<"why", never>["memory_id"],
    options: Options<"why", "memory_id"> = {},
  ): Promise<Said["Card"]> {
    return this.call(OPERATIONS.why, { memory_id, ...options });
  }

  /** See all about a topic: extracts in order of time, totals. */
  survey(
    topic: Options<"survey_memories", never>["topic"],
    options: Options<"survey_memories", "topic"> = {},
  ): Promise<Said["Surveyed"]> {
    return this.call(OPERATIONS.survey_memories, { topic, ...options });
  }

  /** Hide an old memory behind a newer one. */
  supersede(
    old_memory_id: Options<"supersede_memory", never>["old_memory_id"],
    new_memory_id: Options<"supersede_memory", never>["new_memory_id"],
    options: Options<"supersede_memory", "old_memory_id" | "new_memory_id"> = {},
  ): Promise<Said["Superseded"]> {
    return this.call(OPERATIONS.supersede_memory, { old_memory_id, new_memory_id, ...options });
  }

  /** Bring back a memory that was archived or superseded. */
  restore(
    memory_id: Options<"restore_memory", never>["memory_id"],
    options: Options<"restore_memory", "memory_id"> = {},
  ): Promise<Said["MemoryChanged"]> {
    return this.call(OPERATIONS.restore_memory, { memory_id, ...options });
  }

  /** Keep many facts at once. */
  importMany(
    records: Options<"import_memories", never>["records"],
    options: Options<"import_memories", "records"> = {},
  ): Promise<Said["MemoriesImported"]> {
    return this.call(OPERATIONS.import_memories, { records, ...options });
  }

  /** Say how far a memory is vouched for. */
  verify(
    memory_id: Options<"verify_memory", never>["memory_id"],
    verification: Options<"verify_memory", never>["verification"],
    options: Options<"verify_memory", "memory_id" | "verification"> = {},
  ): Promise<Said["Verified"]> {
    return this.call(OPERATIONS.verify_memory, { memory_id, verification, ...options });
  }

  /** Move a verified memory from untrusted to trusted, which searches show. */
  promote(
    record_id: Options<"memory_promote_to_trusted", never>["record_id"],
    options: Options<"memory_promote_to_trusted", "record_id"> = {},
  ): Promise<Said["Promoted"]> {
    return this.call(OPERATIONS.memory_promote_to_trusted, { record_id, ...options });
  }

  /** List pairs of memories that disagree. */
  contradictions(
    options: Options<"list_contradictions", never> = {},
  ): Promise<Said["ContradictionList"]> {
    return this.call(OPERATIONS.list_contradictions, { ...options });
  }

  /** Let everybody see your private memory, as you read it. */
  share(
    memory_id: Options<"share_memory", never>["memory_id"],
    options: Options<"share_memory", "memory_id"> = {},
  ): Promise<Said["Shared"]> {
    return this.call(OPERATIONS.share_memory, { memory_id, ...options });
  }

  /** Make your memory private again. */
  unshare(
    memory_id: Options<"unshare_memory", never>["memory_id"],
    options: Options<"unshare_memory", "memory_id"> = {},
  ): Promise<Said["Unshared"]> {
    return this.call(OPERATIONS.unshare_memory, { memory_id, ...options });
  }

  /** Say how two memories are related: searches for one lift the other. */
  connect(
    source: Options<"connect", never>["source"],
    target: Options<"connect", never>["target"],
    options: Options<"connect", "source" | "target"> = {},
  ): Promise<Said["Connected"]> {
    return this.call(OPERATIONS.connect, { source, target, ...options });
  }

  /** Remove the link between two memories for good. */
  disconnect(
    source: Options<"disconnect", never>["source"],
    target: Options<"disconnect", never>["target"],
    options: Options<"disconnect", "source" | "target"> = {},
  ): Promise<Said["Disconnected"]> {
    return this.call(OPERATIONS.disconnect, { source, target, ...options });
  }

  /** Link the memories that best match two queries. */
  connectByQuery(
    source_query: Options<"connect_by_query", never>["source_query"],
    target_query: Options<"connect_by_query", never>["target_query"],
    options: Options<"connect_by_query", "source_query" | "target_query"> = {},
  ): Promise<Said["QueryConnected"]> {
    return this.call(OPERATIONS.connect_by_query, { source_query, target_query, ...options });
  }

  /** Make many links at once; bad ones are reported by index. */
  connectMany(
    edges: Options<"connects", never>["edges"],
    options: Options<"connects", "edges"> = {},
  ): Promise<Said["BatchConnected"]> {
    return this.call(OPERATIONS.connects, { edges, ...options });
  }

  /** Say how much memories helped (1) or misled (0), for later ranks. */
  recordOutcome(
    memory_ids: Options<"record_outcome", never>["memory_ids"],
    signal: Options<"record_outcome", never>["signal"],
    options: Options<"record_outcome", "memory_ids" | "signal"> = {},
  ): Promise<Said["OutcomeRecorded"]> {
    return this.call(OPERATIONS.record_outcome, { memory_ids, signal, ...options });
  }

  /** Make a named node, or merge properties into it. */
  addNode(
    name: Options<"graph_add_node", never>["name"],
    options: Options<"graph_add_node", "name"> = {},
  ): Promise<Said["NodeAdded"]> {
    return this.call(OPERATIONS.graph_add_node, { name, ...options });
  }

  /** Read a node by its exact name, or see similar names. */
  getNode(
    name: Options<"get_node_by_name", never>["name"],
    options: Options<"get_node_by_name", "name"> = {},
  ): Promise<Said["NodeFound"] | Said["NodeMissing"]> {
    return this.call(OPERATIONS.get_node_by_name, { name, ...options });
  }

  /** Write a directed fact about two named things; missing nodes are made. */
  addEdge(
    source_name: Options<"graph_add_edge", never>["source_name"],
    target_name: Options<"graph_add_edge", never>["target_name"],
    relation: Options<"graph_add_edge", never>["relation"],
    options: Options<"graph_add_edge", "source_name" | "target_name" | "relation"> = {},
  ): Promise<Said["EdgeAdded"] | Said["ChangeNeedsConsent"] | Said["NameAmbiguous"]> {
    return this.call(OPERATIONS.graph_add_edge, { source_name, target_name, relation, ...options });
  }

  /** See every edge of a node, heaviest first, or one by edge_id. */
  listEdges(
    options: Options<"graph_list_edges", never> = {},
  ): Promise<Said["EdgeList"] | Said["EdgesMissing"]> {
    return this.call(OPERATIONS.graph_list_edges, { ...options });
  }

  /** Remove an edge. */
  deleteEdge(
    edge_id: Options<"graph_delete_edge", never>["edge_id"],
    options: Options<"graph_delete_edge", "edge_id"> = {},
  ): Promise<Said["GraphDeleted"] | Said["DeletionNeedsConsent"]> {
    return this.call(OPERATIONS.graph_delete_edge, { edge_id, ...options });
  }

  /** Remove a node and all its edges. */
  deleteNode(
    node_id: Options<"graph_delete_node", never>["node_id"],
    options: Options<"graph_delete_node", "node_id"> = {},
  ): Promise<Said["GraphDeleted"] | Said["DeletionNeedsConsent"]> {
    return this.call(OPERATIONS.graph_delete_node, { node_id, ...options });
  }

  /** Verify a fact: read the edge from exactly this source to this target. */
  getEdge(
    source_name: Options<"get_edge", never>["source_name"],
    target_name: Options<"get_edge", never>["target_name"],
    relation: Options<"get_edge", never>["relation"],
    options: Options<"get_edge", "source_name" | "target_name" | "relation"> = {},
  ): Promise<Said["EdgeFound"] | Said["EdgeMissing"]> {
    return this.call(OPERATIONS.get_edge, { source_name, target_name, relation, ...options });
  }

  /** See what surrounds a node, nearest first. */
  neighbors(
    node_name: Options<"graph_query_neighbors", never>["node_name"],
    options: Options<"graph_query_neighbors", "node_name"> = {},
  ): Promise<Said["Neighbors"] | Said["WalkStartMissing"]> {
    return this.call(OPERATIONS.graph_query_neighbors, { node_name, ...options });
  }

  /** Find a shortest path between two nodes. */
  findPath(
    start_node: Options<"graph_find_path", never>["start_node"],
    end_node: Options<"graph_find_path", never>["end_node"],
    options: Options<"graph_find_path", "start_node" | "end_node"> = {},
  ): Promise<Said["PathReport"] | Said["WalkStartMissing"]> {
    return this.call(OPERATIONS.graph_find_path, { start_node, end_node, ...options });
  }

  /** Choose the sector of a graph edge by hand, for good. */
  reclassifyEdge(
    source_name: Options<"reclassify_memory_sector", never>["source_name"],
    target_name: Options<"reclassify_memory_sector", never>["target_name"],
    relation: Options<"reclassify_memory_sector", never>["relation"],
    new_sector: Options<"reclassify_memory_sector", never>["new_sector"],
    options: Options<"reclassify_memory_sector", "source_name" | "target_name" | "relation" | "new_sector"> = {},
  ): Promise<Said["Reclassified"]> {
    return this.call(OPERATIONS.reclassify_memory_sector, { source_name, target_name, relation, new_sector, ...options });
  }

  /** Approve or reject a proposal. */
  decideProposal(
    proposal_id: Options<"decide_proposal", never>["proposal_id"],
    decision: Options<"decide_proposal", never>["decision"],
    options: Options<"decide_proposal", "proposal_id" | "decision"> = {},
  ): Promise<Said["Decided"]> {
    return this.call(OPERATIONS.decide_proposal, { proposal_id, decision, ...options });
  }

  /** See proposals, newest first, and what each would do. */
  listProposals(
    options: Options<"list_proposals", never> = {},
  ): Promise<Said["ProposalList"]> {
    return this.call(OPERATIONS.list_proposals, { ...options });
  }

  /** Begin afresh: @stored and @recalled[N] are cleared. */
  beginSession(
    options: Options<"begin_session", never> = {},
  ): Promise<Said["SessionBegun"]> {
    return this.call(OPERATIONS.begin_session, { ...options });
  }

  /** See what @stored and @recalled[N] stand for in this session. */
  breadcrumbs(
    session: Options<"get_breadcrumbs", never>["session"],
    options: Options<"get_breadcrumbs", "session"> = {},
  ): Promise<Said["BreadcrumbTrail"]> {
    return this.call(OPERATIONS.get_breadcrumbs, { session, ...options });
  }

  /** Read how to work with this memory, or what one tool costs and returns, with an example. */
  guide(
    options: Options<"guide", never> = {},
  ): Promise<Said["GuideOverview"] | Said["GuideEntry"] | Said["GuideMissing"]> {
    return this.call(OPERATIONS.guide, { ...options });
  }

  /** Learn what became of a write, and its reply. */
  getCommand(
    command_id: Options<"get_command", never>["command_id"],
    options: Options<"get_command", "command_id"> = {},
  ): Promise<Said["CommandReport"]> {
    return this.call(OPERATIONS.get_command, { command_id, ...options });
  }

  /** See who changed what, newest first. */
  audit(
    options: Options<"audit", never> = {},
  ): Promise<Said["AuditList"]> {
    return this.call(OPERATIONS.audit, { ...options });
  }

  /** Count memories by partition, sector, state and project, links, and waiting jobs. */
  stats(
    options: Options<"memory_stats", never> = {},
  ): Promise<Said["Stats"]> {
    return this.call(OPERATIONS.memory_stats, { ...options });
  }
}
