/** Compiled, never run: what is written wrong is a mistake that the compiler finds. */

import { Memory } from "../src/index.js";

export async function typed(memory: Memory): Promise<void> {
  const { stored } = await memory.store("Ada prefers tea", { speaker: "Ada", tags: ["taste"], sector: "semantic" });
  const found = await memory.search("what does Ada drink?", { limit: 3, partitions: ["trusted"] });
  const scores: (number | undefined)[] = found.memories.map((memory) => memory.score);
  await memory.store("Ada likes cats", { metadata: { from: "desk", seen: [1, 2] } });
  const edge = await memory.getEdge("Ada", "Engine", "DESIGNED");
  if (edge.status === "success") edge.weight.toFixed(2);
  const one = await memory.get(stored.id, { include_untrusted: true });
  const text: string | undefined = one.memory?.content;
  await memory.verify(stored.id, "verified", { reason: text ?? `${scores.length}` });

  // @ts-expect-error: a number
  await memory.search("x", { limit: "three" });
  // @ts-expect-error: no such parameter
  await memory.search("x", { limits: 3 });
  // @ts-expect-error: no such word
  await memory.store("x", { sector: "emotions" });
  // @ts-expect-error: the content is missing
  await memory.store();
  // @ts-expect-error: reads have no key
  await memory.search("x", { idempotency_key: "k" });
  // @ts-expect-error: replies are whole ones
  await memory.search("x", { detail: "brief" });
}
