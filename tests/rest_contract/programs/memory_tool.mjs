/** Anthropic's SDK runs the memory tool over engramq, then several edit at once; prints a report. */

import Anthropic from "@anthropic-ai/sdk";
import { Memory } from "engramq";
import { MemoryFiles, memoryTool } from "engramq/anthropic";

const receipts = [];
const memory = new Memory();
const options = { project: "sdk", onReceipt: (reply) => receipts.push(reply.command_id) };
const last = await new Anthropic({ maxRetries: 0 }).beta.messages
  .toolRunner({
    model: "claude-opus-4-6",
    max_tokens: 1024,
    max_iterations: 50,
    messages: [{ role: "user", content: "Keep what you learn." }],
    tools: [memoryTool(memory, options)],
  })
  .runUntilDone();
await new MemoryFiles(memory, options).clear();

const files = new MemoryFiles(memory);
const path = "/memories/shop/notes.md";
await files.create({ path, file_text: "first\n" });
await Promise.all(["a", "b", "c", "d"].map((insert_text) => files.insert({ path, insert_line: 1, insert_text })));
const edited = await files.view({ path });
await files.rename({ old_path: "/memories/shop", new_path: "/memories/bank" });
await files.delete({ path: "/memories/bank" });
await files.create({ path, file_text: " \n" });
const kept = await memory.recent({ project: "*" });
console.log(
  JSON.stringify({
    said: last.content[0].text,
    receipts,
    edited: edited.split("\n").slice(1).map((line) => line.split("\t")[1]).sort(),
    kept: kept.memories.map((one) => [one.external_id, one.project, one.thread, one.content]),
    blank: await files.view({ path }),
  }),
);
