/** Anthropic's memory tool (`memory_20250818`) over memories, for the tool runner of `@anthropic-ai/sdk`. */

import { betaMemoryTool, type MemoryToolHandlers } from "@anthropic-ai/sdk/helpers/beta/memory";
import { ToolError } from "@anthropic-ai/sdk/lib/tools/ToolError";

import { EngramqFailure } from "./failures.js";
import { FileProblem } from "./files.js";
import type { Memory } from "./memory.js";
import { MemoryFiles, type MemoryFilesOptions } from "./memory_files.js";

export { MemoryFiles, type MemoryFilesOptions } from "./memory_files.js";

type Tool = ReturnType<typeof betaMemoryTool>;

/** The memory tool for `client.beta.messages.toolRunner`: its files are memories of engramq. */
export function memoryTool(memory: Memory, options: MemoryFilesOptions = {}, extra?: Parameters<typeof betaMemoryTool>[1]): Tool {
  const files = new MemoryFiles(memory, options);
  const handlers: MemoryToolHandlers = {
    view: (command) => answered(files.view(command)),
    create: (command) => answered(files.create(command)),
    str_replace: (command) => answered(files.str_replace(command)),
    insert: (command) => answered(files.insert(command)),
    delete: (command) => answered(files.delete(command)),
    rename: (command) => answered(files.rename(command)),
  };
  return betaMemoryTool(handlers, extra);
}

/** An answer; what the model is to read of a failure is a ToolError, since the runner puts a word before any other. */
async function answered(answer: Promise<string>): Promise<string> {
  try {
    return await answer;
  } catch (problem) {
    if (problem instanceof FileProblem) throw new ToolError(problem.message);
    if (problem instanceof EngramqFailure) throw new ToolError(`Error: ${problem.message}`);
    throw problem;
  }
}
