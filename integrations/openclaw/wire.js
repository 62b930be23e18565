/** Calls of engramq over REST with fetch, so that OpenClaw needs no further package. */

const LOCAL = "http://127.0.0.1:8765";
// What may be answered otherwise later: an expired token and a wrong address are mended, a busy server is free again.
const AGAIN = new Set([401, 403, 404, 405, 408, 425, 429, 500, 502, 503, 504]);

/** The server gave no answer that is one; the same request may be sent again later. */
export class Unreached extends Error {}

/** The server refused the request, and will again. The message is the server's, with what to do. */
export class Refused extends Error {}

/** A function that sends one request: its path, body, bound in milliseconds, and the key of a write. */
export function wireTo(url, token) {
  const base = new URL(url || process.env.ENGRAMQ_URL || LOCAL);
  if (base.protocol !== "http:" && base.protocol !== "https:") {
    throw new TypeError(`${base.href} is no http or https URL of a server.`);
  }
  const address = (base.origin + base.pathname).replace(/\/+$/, "").replace(/\/(mcp|v1)$/, "");
  const secret = (token || process.env.ENGRAMQ_TOKEN || "").trim();
  if (!/^[!-~]*$/.test(secret)) throw new TypeError("The token has a character that no token has.");

  return async function post(path, body, boundMs, key) {
    const headers = { "content-type": "application/json" };
    if (secret) headers.authorization = `Bearer ${secret}`;
    if (key) headers["idempotency-key"] = key;
    let response;
    let reply;
    try {
      response = await fetch(`${address}/v1${path}`, {
        method: "POST",
        headers,
        body: JSON.stringify(body),
        redirect: "manual", // the token goes to this server alone
        signal: AbortSignal.timeout(boundMs),
      });
      reply = objectIn(await response.text());
    } catch (problem) {
      throw new Unreached(`The server cannot be reached: ${problem.cause?.message || problem.cause?.code || problem.message}`);
    }
    const words = [reply?.error, reply?.recovery].filter(Boolean).join(" ") || `The server answered ${response.status}.`;
    if (AGAIN.has(response.status) || (response.ok && !reply)) throw new Unreached(words);
    if (!response.ok) throw new Refused(words);
    return reply;
  };
}

function objectIn(text) {
  try {
    const found = JSON.parse(text);
    return typeof found === "object" && found !== null && !Array.isArray(found) ? found : undefined;
  } catch {
    return undefined; // a proxy's page
  }
}
