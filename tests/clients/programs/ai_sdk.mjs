// Vercel's AI SDK: the server's tools in a question. Only the model is ours: it asks for one call after the other.

import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport } from "@ai-sdk/mcp/mcp-stdio";
import { generateText, stepCountIs } from "ai";
import { MockLanguageModelV4 } from "ai/test";

import { answer, filled, run } from "./calling.mjs";

await run(async (job) => {
  const relay = { command: job.command, args: job.arguments, env: job.environment };
  const transport = job.url ? { type: "http", url: job.url } : new Experimental_StdioMCPTransport(relay);
  const client = await createMCPClient({ transport });
  const tools = {};
  const { steps } = await generateText({
    model: modelThatAsksFor([...job.calls], tools, job.fill),
    tools: await client.tools(),
    prompt: "Go on.",
    stopWhen: stepCountIs(job.calls.length + 1),
  });
  const parts = steps.flatMap((step) => step.content);
  const thrown = parts.filter(({ type }) => type === "tool-error").map(({ error }) => String(error));
  if (thrown.length > 0) throw new Error(thrown.join("; "));
  await client.close();
  return { tools, answers: parts.filter(({ type }) => type === "tool-result").map(({ output }) => answer(output)) };
});

/** Return a model that asks for these calls, one a turn, and notes the tools as they are sent to it. */
function modelThatAsksFor(calls, tools, how) {
  const usage = { inputTokens: { total: 0 }, outputTokens: { total: 0 } };
  const doGenerate = async ({ tools: sent }) => {
    for (const tool of sent) tools[tool.name] = tool.inputSchema;
    const call = calls.shift();
    if (!call) return { content: [{ type: "text", text: "Done." }], finishReason: { unified: "stop" }, usage, warnings: [] };
    const input = JSON.stringify(filled(tools[call.tool], call.arguments, how));
    const content = [{ type: "tool-call", toolCallId: `call-${calls.length}`, toolName: call.tool, input }];
    return { content, finishReason: { unified: "tool-calls" }, usage, warnings: [] };
  };
  return new MockLanguageModelV4({ doGenerate });
}
