/** A server that answers by a script and remembers what it was asked. */

import { createServer } from "node:http";

/** Run `visit(url, seen)` against a server that makes these answers, the last one for ever. */
export async function served(answers, visit) {
  const seen = [];
  const server = createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      const body = Buffer.concat(parts).toString();
      seen.push({ method: request.method, url: request.url, headers: request.headers, body });
      const answer = answers[Math.min(seen.length, answers.length) - 1];
      if (answer === "cut") {
        request.socket.destroy();
      } else if (answer !== "silence") {
        const [status, said, headers = {}] = answer;
        response.writeHead(status, { "content-type": "application/json", ...headers });
        response.end(typeof said === "string" ? said : JSON.stringify(said));
      }
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    return await visit(`http://127.0.0.1:${server.address().port}`, seen);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}
