/** What a call sends, when it is repeated, and what it ends with. `ENGRAMQ_BUILT` names the folder of the built client. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { served } from "./server.mjs";

const built = pathToFileURL(`${process.env.ENGRAMQ_BUILT}/index.js`).href;
const { EngramqFailure, Erased, Memory, NotReached, Refused, StillPending } = await import(built);

const STORED = { status: "stored", command_id: "c", stored: { id: "m-1", content: "x" }, similar_memories: [] };
const BUSY = { status: "error", code: "overloaded", error: "Too much.", recovery: "Wait." };
const QUICK = { callMs: 3_000, requestMs: 500, pendingMs: 1_000, firstWaitMs: 5, longestWaitMs: 20 };

const over = (url, policy = {}) => new Memory({ url, token: "secret", policy: { ...QUICK, ...policy } });

test("a write is repeated with the key of its first request", () =>
  served(["cut", [503, BUSY], [502, "<html>"], "silence", [200, STORED]], async (url, seen) => {
    const reply = await over(url).store("x", { tags: ["a"] });
    assert.equal(reply.stored.id, "m-1");
    assert.equal(seen.length, 5);
    assert.equal(new Set(seen.map((one) => one.headers["idempotency-key"])).size, 1);
    assert.ok(seen[0].headers["idempotency-key"]);
    assert.equal(seen[0].headers.authorization, "Bearer secret");
    assert.deepEqual(JSON.parse(seen[0].body), { content: "x", tags: ["a"] });
  }));

test("every call has a key of its own, unless one is given, and reads have none", () =>
  served([[200, STORED], [200, STORED], [200, { status: "success", memories: [], count: 0 }]], async (url, seen) => {
    await over(url).store("x");
    await over(url).store("x", { idempotency_key: "mine" });
    await over(url).search("x");
    const keys = seen.map((one) => one.headers["idempotency-key"]);
    assert.notEqual(keys[0], "mine");
    assert.deepEqual(keys.slice(1), ["mine", undefined]);
    assert.ok(!seen[1].body.includes("mine"));
  }));

test("an id that leads to another path is refused and not sent", () =>
  served([], async (url, seen) => {
    for (const id of ["", ".", "..", " .. "]) {
      const refused = await rejected(over(url).get(id), Refused);
      assert.deepEqual([refused.code, refused.field, refused.httpStatus], ["invalid_parameter", "memory_id", 400]);
    }
    assert.equal(seen.length, 0);
  }));

test("a wait is never shorter than the server asked for", () =>
  served([[429, BUSY, { "retry-after": "1" }], [200, STORED]], async (url) => {
    const begun = performance.now();
    await over(url).store("x");
    assert.ok(performance.now() - begun >= 1_000);
  }));

test("a wait that does not fit into the call ends it at once", () =>
  served([[503, BUSY, { "retry-after": "60" }]], async (url, seen) => {
    const refused = await rejected(over(url).store("x"), Refused);
    assert.deepEqual([refused.code, refused.recovery, refused.httpStatus], ["overloaded", "Wait.", 503]);
    assert.equal(seen.length, 1);
  }));

test("a call ends within its time and tells the key to go on with", () =>
  served(["cut"], async (url, seen) => {
    const begun = performance.now();
    const lost = await rejected(over(url, { callMs: 1_000 }).store("x"), NotReached);
    assert.ok(performance.now() - begun < 3_000);
    assert.equal(lost.idempotencyKey, seen[0].headers["idempotency-key"]);
    assert.ok(lost instanceof EngramqFailure);
  }));

test("a request goes out however little of the call is left", () =>
  served(["cut", [200, STORED]], async (url, seen) => {
    await over(url, { callMs: 2_000.5, requestMs: 15_000 }).store("x");
    assert.equal(seen.length, 2);
  }));

test("a server that is not there is told with its cause", async () => {
  for (const host of ["127.0.0.1", "localhost"]) {
    const lost = await rejected(over(`http://${host}:3`, { callMs: 300, requestMs: 15_000 }).search("x"), NotReached);
    assert.match(lost.message, /ECONNREFUSED/);
    assert.ok(lost.cause instanceof Error);
  }
});

test("a policy that is none is told at once, not taken for a server that is not there", () =>
  assert.rejects(over("http://127.0.0.1:3", { requestMs: Number.NaN }).search("x"), RangeError));

test("what is refused is not repeated", () =>
  served([[400, { status: "invalid_parameter", code: "invalid_parameter", error: "No.", field: "content" }]], async (url, seen) => {
    const refused = await rejected(over(url).store(""), Refused);
    assert.deepEqual([refused.code, refused.field, seen.length], ["invalid_parameter", "content", 1]);
  }));

test("a redirect is not followed, so that no other server sees the token", () =>
  served([[307, "elsewhere", { location: "http://127.0.0.1:9/v1/memories" }]], async (url) => {
    await rejected(over(url, { callMs: 100 }).store("x"), NotReached);
  }));

test("a pending write is followed to its reply", () =>
  served(
    [[202, { status: "pending", command_id: "c/1" }], [200, { status: "pending", reply: null }], "cut", [200, { status: "done", reply: STORED }]],
    async (url, seen) => {
      assert.equal((await over(url).store("x")).status, "stored");
      assert.deepEqual(seen.map((one) => one.url).slice(1), Array(3).fill("/v1/commands/c%2F1"));
    },
  ));

test("a write that stays pending says its command", () =>
  served([[202, { status: "pending", command_id: "c-9" }], [200, { status: "running", reply: null }]], async (url) => {
    const pending = await rejected(over(url, { pendingMs: 400 }).store("x"), StillPending);
    assert.equal(pending.commandId, "c-9");
  }));

test("a pending write that is refused in the end rejects with that", () =>
  served(
    [[202, { status: "pending", command_id: "c" }], [200, { status: "failed", reply: { ...BUSY, code: "quota_exceeded" } }]],
    async (url) => assert.equal((await rejected(over(url).store("x"), Refused)).code, "quota_exceeded"),
  ));

test("a repeated write whose memory was erased says so, and an erasure is a reply", () =>
  served([[200, { status: "erased", id: "m" }]], async (url) => {
    assert.equal((await rejected(over(url).store("x"), Erased)).memoryId, "m");
    assert.equal((await over(url).forget("m", { erase: true })).status, "erased");
  }));

test("arguments stand where the operation takes them", () =>
  served([[200, { status: "success", memories: [], count: 0, memory: null }]], async (url, seen) => {
    await over(`${url}/mcp`).recent({ limit: 3, tags: ["a", "b c"], include_superseded: true, thread: undefined });
    assert.equal(seen[0].url, "/v1/memories?limit=3&tags=a&tags=b+c&include_superseded=true");
    await over(`${url}/v1/`).get("a/b ü");
    assert.equal(seen[1].url, "/v1/memories/a%2Fb%20%C3%BC");
  }));

test("pages follow each other", () =>
  served(
    [[200, { status: "success", memories: [{ id: 1 }, { id: 2 }], count: 2, next_cursor: "n" }], [200, { status: "success", memories: [{ id: 3 }], count: 1, next_cursor: null }]],
    async (url, seen) => {
      const ids = [];
      for await (const memory of over(url).eachRecent({ limit: 2 })) ids.push(memory.id);
      assert.deepEqual(ids, [1, 2, 3]);
      assert.equal(seen[1].url, "/v1/memories?limit=2&cursor=n");
    },
  ));

test("a call that is aborted ends with the reason", () =>
  served(["silence"], async (url) => {
    await assert.rejects(over(url).search("x", { signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
    await assert.rejects(over(url).search("x", { signal: AbortSignal.abort(new Error("enough")) }), { message: "enough" });
  }));

test("a URL that is none is refused before anything is sent", () => {
  for (const url of ["memory", "ftp://memory", ""]) assert.throws(() => new Memory({ url }), TypeError);
});

async function rejected(promise, kind) {
  const problem = await promise.then(
    (reply) => assert.fail(`there was a reply: ${JSON.stringify(reply)}`),
    (problem) => problem,
  );
  assert.ok(problem instanceof kind, `${problem}`);
  return problem;
}
