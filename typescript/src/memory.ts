/** The client: calls over fetch, repeated within a bound, each write under one idempotency key. */

import { Calls, OPERATIONS } from "./calls.js";
import { Erased, NotReached, Refused, StillPending } from "./failures.js";
import { type Operation, type Options, type Request, requestOf } from "./operation.js";
import { POLICY, type Policy, REPEATED, waitMs } from "./policy.js";
import type { components } from "./schema.js";

type Given = Readonly<Record<string, unknown>> & { signal?: AbortSignal };
type Body = Record<string, unknown>;

/** Where the server is and how calls are made. */
export interface MemoryOptions {
  /** Else ENGRAMQ_URL, else the server that `engramq up` runs on this machine. */
  url?: string;
  /** Else ENGRAMQ_TOKEN. It goes to that server alone: no redirect is followed. */
  token?: string;
  policy?: Partial<Policy>;
  /** Another fetch, for tests and runtimes that have their own. */
  fetch?: typeof fetch;
}

const LOCAL = "http://127.0.0.1:8765";
const FIRST_LOOK_MS = 100; // after a write was answered as pending
const LAST_LOOK_MS = 2_000;
const MOST_RETRY_S = 3_600;

/** A connection to engramq. Nothing is sent before the first call, and nothing has to be closed. */
export class Memory extends Calls {
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #policy: Policy;
  readonly #fetch: typeof fetch;

  constructor(options: MemoryOptions = {}) {
    super();
    const url = new URL(options.url ?? variable("ENGRAMQ_URL") ?? LOCAL);
    if (url.protocol !== "http:" && url.protocol !== "https:") {
      throw new TypeError(`${url.href} is no http or https URL of a server.`);
    }
    this.#url = (url.origin + url.pathname).replace(/\/+$/, "").replace(/\/(mcp|v1)$/, "");
    this.#token = options.token ?? variable("ENGRAMQ_TOKEN");
    this.#policy = { ...POLICY, ...options.policy };
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Every memory of the list, newest first, page by page as they are needed. */
  async *eachRecent(
    options: Options<"list_recent_memories", "cursor"> = {},
  ): AsyncGenerator<components["schemas"]["Memory"], void, undefined> {
    let cursor: string | null | undefined;
    do {
      const page = await this.recent({ ...options, ...(cursor ? { cursor } : {}) });
      yield* page.memories;
      cursor = page.next_cursor;
    } while (cursor);
  }

  protected override async call(operation: Operation, given: Given): Promise<never> {
    const signal = given.signal;
    let [httpStatus, body] = await this.#answered(requestOf(operation, given), signal);
    if (httpStatus === 202) {
      [httpStatus, body] = [200, await this.#outcome(String(body["command_id"]), signal)];
    }
    return replyIn(operation, httpStatus, body) as never;
  }

  /** Status and body of the first answer that does not ask to be repeated, or of the last one there was. */
  async #answered(request: Request, signal: AbortSignal | undefined): Promise<[number, Body]> {
    const until = performance.now() + this.#policy.callMs;
    for (let attempt = 0; ; attempt++) {
      let asked = 0;
      let answered: [number, Body] | undefined;
      let why: string;
      let cause: unknown;
      const timeout = this.#timeout(until - performance.now());
      try {
        const response = await this.#send(request, signal ? AbortSignal.any([signal, timeout]) : timeout);
        asked = retryAfterMs(response);
        const body = decoded(await response.text());
        why = `The server answered ${response.status} with something that is no reply.`;
        if (body !== undefined) {
          answered = [response.status, body];
          if (!REPEATED.has(response.status)) return answered;
        }
      } catch (problem) {
        signal?.throwIfAborted();
        cause = problem;
        why = `The server cannot be reached: ${reason(problem)}`;
      }
      const wait = waitMs(this.#policy, attempt, asked);
      if (performance.now() + wait >= until) {
        if (answered) throw new Refused(...answered);
        throw new NotReached(why, request.key, { cause });
      }
      await pause(wait, signal);
    }
  }

  /** Whole milliseconds: Node refuses any other. */
  #timeout(leftMs: number): AbortSignal {
    return AbortSignal.timeout(Math.ceil(Math.max(10, Math.min(this.#policy.requestMs, leftMs))));
  }

  #send(request: Request, signal: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = {};
    if (this.#token) headers["authorization"] = `Bearer ${this.#token}`;
    if (request.key !== undefined) headers["idempotency-key"] = request.key;
    if (request.body !== undefined) headers["content-type"] = "application/json";
    return this.#fetch(this.#url + request.path, {
      method: request.method,
      headers,
      body: request.body ?? null,
      redirect: "manual",
      signal,
    });
  }

  /** What a write that was pending answered in the end. */
  async #outcome(commandId: string, signal: AbortSignal | undefined): Promise<Body> {
    const until = performance.now() + this.#policy.pendingMs;
    const look = requestOf(OPERATIONS.get_command, { command_id: commandId });
    for (let wait = FIRST_LOOK_MS; performance.now() + wait < until; wait = Math.min(LAST_LOOK_MS, wait * 2)) {
      await pause(wait, signal);
      const [httpStatus, report] = await this.#answered(look, signal);
      const body = replyIn(OPERATIONS.get_command, httpStatus, report);
      if (isObject(body["reply"])) return body["reply"];
    }
    throw new StillPending(commandId);
  }
}

function replyIn(operation: Operation, httpStatus: number, body: Body): Body {
  const status = String(body["status"]);
  if (!("code" in body) && operation.statuses.includes(status)) return body;
  if (status === "erased") throw new Erased(String(body["id"]));
  throw new Refused(httpStatus, body);
}

/** The object in an answer, undefined where it is no answer of ours: a proxy's page. */
function decoded(text: string): Body | undefined {
  try {
    const found: unknown = JSON.parse(text);
    return isObject(found) && "status" in found ? found : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Body {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function retryAfterMs(response: Response): number {
  const asked = response.headers.get("retry-after") ?? "";
  return /^\d+$/.test(asked) ? Math.min(Number(asked), MOST_RETRY_S) * 1_000 : 0;
}

function reason(problem: unknown): string {
  if (!(problem instanceof Error)) return String(problem);
  const cause = problem.cause as { message?: string; code?: string } | undefined;
  return cause?.message || cause?.code || problem.message; // several addresses of a name leave a code alone
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** A variable of the environment, where the runtime has one; an empty one says nothing. */
function variable(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}
