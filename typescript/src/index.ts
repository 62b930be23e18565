/** Client of engramq, long-term memory for AI agents, over REST. */

export { EngramqFailure, Erased, NotReached, Refused, StillPending } from "./failures.js";
export { Memory, type MemoryOptions } from "./memory.js";
export type { CallOptions, Options } from "./operation.js";
export type { Policy } from "./policy.js";
export type { components, operations } from "./schema.js";
