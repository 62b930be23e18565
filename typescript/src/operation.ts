/** An operation of REST, and a call of it as a request. */

import { Refused } from "./failures.js";
import type { operations } from "./schema.js";

/** One operation; `statuses` are the words of its replies. */
export interface Operation {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  readonly path: string;
  readonly write: boolean;
  readonly statuses: readonly string[];
}

/** What stands there, or an object without members where nothing does. */
type Given<T> = [NonNullable<T>] extends [never] ? object : NonNullable<T>;

type Parameters<K extends keyof operations, Where extends "path" | "query"> = Given<operations[K]["parameters"][Where]>;

type Body<K extends keyof operations> = operations[K] extends {
  requestBody?: { content: { "application/json": infer Taken } };
}
  ? Taken
  : object;

/** How one call is made. */
export interface CallOptions {
  /** Ends the call; a write may have been carried out by then. */
  signal?: AbortSignal;
}

type Keyed<K extends keyof operations> = [NonNullable<operations[K]["parameters"]["header"]>] extends [never]
  ? object
  : { idempotency_key?: string };

/** What a call takes beside the parameters `Required`, which it must have; under the names that REST gives them. */
export type Options<K extends keyof operations, Required extends string> = Omit<
  Parameters<K, "path"> & Parameters<K, "query"> & Body<K>,
  Required | "detail" | "max_chars"
> &
  Keyed<K> &
  CallOptions;

/** One request as it is sent, as often as it takes. `key` is its idempotency key, undefined for a read. */
export interface Request {
  readonly method: string;
  readonly path: string;
  readonly body: string | undefined;
  readonly key: string | undefined;
}

/** An id as a part of a path; one that means another folder, quoted too, is refused as a server would. */
function inPath(name: string, value: string): string {
  if (["", ".", ".."].includes(value.trim())) {
    const error = `${name} must be an id, not ${JSON.stringify(value)}.`;
    throw new Refused(400, { status: "invalid_parameter", code: "invalid_parameter", field: name, error });
  }
  return encodeURIComponent(value);
}

/** The request of a call with these arguments; undefined means: not given. */
export function requestOf(operation: Operation, given: Readonly<Record<string, unknown>>): Request {
  const rest = new Map(Object.entries(given).filter(([, value]) => value !== undefined && value !== null));
  rest.delete("signal");
  const own = rest.get("idempotency_key");
  rest.delete("idempotency_key");
  const key = operation.write ? (typeof own === "string" ? own : crypto.randomUUID()) : undefined;
  const path = operation.path.replace(/\{(\w+)\}/g, (_hole, name: string) => {
    const value = rest.get(name);
    rest.delete(name);
    return inPath(name, String(value));
  });
  if (operation.method === "POST" || operation.method === "PATCH") {
    return { method: operation.method, path, body: JSON.stringify(Object.fromEntries(rest)), key };
  }
  const query = new URLSearchParams();
  for (const [name, value] of rest) {
    for (const one of Array.isArray(value) ? value : [value]) {
      query.append(name, one instanceof Date ? one.toISOString() : String(one));
    }
  }
  const asked = query.toString();
  return { method: operation.method, path: asked ? `${path}?${asked}` : path, body: undefined, key };
}
