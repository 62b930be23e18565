#!/bin/sh
# MCP's memory server (@modelcontextprotocol/server-memory 2026.8.31): what one call names twice is kept twice.
#
# Load: one create_entities with the same name twice, one add_observations with the same text twice, and one
# create_relations with the same relation twice; then the same three calls again.
# Expected: one entity, one observation, one relation. Each tool leaves out what is there already, and says so.
# Real: two of each. Each tool compares with what was there before the call, and not with what the call brings. The
# second call of each adds nothing.
#
# Output seen on 2026-11-30:
#   entities Ada 2, observations 2, relations 2; after the same calls again 2, 2, 2
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund @modelcontextprotocol/server-memory@2026.8.31
cat > look.mjs <<'JS'
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const client = new Client({ name: "look", version: "1" });
await client.connect(
  new StdioClientTransport({
    command: "node_modules/.bin/mcp-server-memory",
    env: { ...process.env, MEMORY_FILE_PATH: `${process.cwd()}/memory.jsonl` },
  }),
);
const tea = { entityName: "Kettle", contents: ["Is blue", "Is blue"] };
const ada = { name: "Ada", entityType: "person", observations: [] };
const owns = { from: "Ada", to: "Kettle", relationType: "owns" };
await client.callTool({
  name: "create_entities",
  arguments: { entities: [{ name: "Kettle", entityType: "thing", observations: [] }] },
});
const seen = [];
for (const _ of [1, 2]) {
  await client.callTool({ name: "create_entities", arguments: { entities: [ada, ada] } });
  await client.callTool({ name: "add_observations", arguments: { observations: [tea] } });
  await client.callTool({ name: "create_relations", arguments: { relations: [owns, owns] } });
  const graph = JSON.parse((await client.callTool({ name: "read_graph", arguments: {} })).content[0].text);
  const kettle = graph.entities.find((entity) => entity.name === "Kettle");
  seen.push([
    graph.entities.filter((entity) => entity.name === "Ada").length,
    kettle.observations.length,
    graph.relations.length,
  ]);
}
const [first, second] = seen;
console.log(
  `entities Ada ${first[0]}, observations ${first[1]}, relations ${first[2]}; after the same calls again ${second.join(", ")}`,
);
await client.close();
process.exit(JSON.stringify(seen) === "[[2,2,2],[2,2,2]]" ? 0 : 1);
JS
node look.mjs
