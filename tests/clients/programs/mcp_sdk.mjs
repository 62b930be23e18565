// The TypeScript SDK: version 1 by the package that the job names, version 2 in the era that it names.

import { answer, filled, run } from "./calling.mjs";

await run(async (job) => {
  const { Client, http, stdio } = job.package.includes("/sdk") ? await version1(job) : await version2(job);
  const client = new Client({ name: "tester", version: "1" }, job.era ? { versionNegotiation: { mode: job.era } } : {});
  const relay = { command: job.command, args: job.arguments, env: job.environment };
  await client.connect(job.url ? new http(new URL(job.url)) : new stdio(relay));

  const tools = {};
  for (const tool of (await client.listTools()).tools) tools[tool.name] = tool.inputSchema;
  const answers = [];
  for (const call of job.calls) {
    const given = filled(tools[call.tool], call.arguments, job.fill);
    answers.push(answer(await client.callTool({ name: call.tool, arguments: given })));
  }
  const protocol = client.getNegotiatedProtocolVersion?.() ?? "";
  await client.close();
  return { tools, answers, protocol };
});

async function version1(job) {
  const { Client } = await import(`${job.package}/client/index.js`);
  const { StreamableHTTPClientTransport } = await import(`${job.package}/client/streamableHttp.js`);
  const { StdioClientTransport } = await import(`${job.package}/client/stdio.js`);
  return { Client, http: StreamableHTTPClientTransport, stdio: StdioClientTransport };
}

async function version2(job) {
  const { Client, StreamableHTTPClientTransport } = await import(job.package);
  const { StdioClientTransport } = await import(`${job.package}/stdio`);
  return { Client, http: StreamableHTTPClientTransport, stdio: StdioClientTransport };
}
