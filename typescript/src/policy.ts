/** How long a call may take, and when it is repeated. */

/** Bounds in milliseconds. */
export interface Policy {
  /** Of a call with all its repetitions. */
  callMs: number;
  /** Of one request. */
  requestMs: number;
  /** Of the wait for a write that the server answered as pending. */
  pendingMs: number;
  /** The first wait; each is twice the last, up to `longestWaitMs`, and a random part of that. */
  firstWaitMs: number;
  longestWaitMs: number;
}

export const POLICY: Readonly<Policy> = {
  callMs: 30_000,
  requestMs: 15_000,
  pendingMs: 30_000,
  firstWaitMs: 100,
  longestWaitMs: 5_000,
};

// The server could not, or a proxy could not reach it: nothing was applied, or a key keeps it from being applied twice.
export const REPEATED: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

/** The wait after this attempt, from 0: never less than the server asked for, and not the same for every client. */
export function waitMs(policy: Policy, attempt: number, askedMs: number): number {
  const most = Math.min(policy.longestWaitMs, policy.firstWaitMs * 2 ** Math.min(attempt, 30));
  return askedMs + most / 2 + (Math.random() * most) / 2;
}
