#!/bin/sh
# A graph of MCP's memory server (2026.8.31) that basic-memory 0.24.1 imports: a relation is counted, and written nowhere.
#
# Load: the memory server is told of one entity, Kettle, and of two relations: Kettle boils Water, and Ada owns Kettle.
# It takes both, though Ada and Water are no entities. `basic-memory import memory-json` reads the file that it wrote.
# Needs Node.js, and Python 3.12 or later.
# Expected: both relations are in the notes, or the import says that one was left out.
# Real: "Added 2 relations" and "Skipped 0 entities". The relation that begins at Kettle is in its note. The one that
# begins at Ada, who has no entity and so gets no note, is in none, and nothing is said of it.
#
# Output seen on 2026-11-30:
#   server: relations 2; import: Added 2 relations, Skipped 0 entities; in notes: boils 1, owns 0
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund @modelcontextprotocol/server-memory@2026.8.31
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet basic-memory==0.24.1
cat > tell.mjs <<'JS'
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const client = new Client({ name: "tell", version: "1" });
await client.connect(
  new StdioClientTransport({
    command: "node_modules/.bin/mcp-server-memory",
    env: { ...process.env, MEMORY_FILE_PATH: `${process.cwd()}/memory.jsonl` },
  }),
);
const kettle = { name: "Kettle", entityType: "thing", observations: ["Is blue"] };
await client.callTool({ name: "create_entities", arguments: { entities: [kettle] } });
const relations = [
  { from: "Kettle", to: "Water", relationType: "boils" },
  { from: "Ada", to: "Kettle", relationType: "owns" },
];
await client.callTool({ name: "create_relations", arguments: { relations } });
await client.close();
JS
node tell.mjs
export HOME="$folder/home" BASIC_MEMORY_HOME="$folder/home/notes"
mkdir -p "$BASIC_MEMORY_HOME"
told=$("$folder/venv/bin/basic-memory" import memory-json memory.jsonl 2>&1)
added=$(echo "$told" | grep -o 'Added [0-9]* relations')
skipped=$(echo "$told" | grep -o 'Skipped [0-9]* entities')
count() { grep -rhc -- "- $1 \[\[" "$BASIC_MEMORY_HOME" | awk '{ sum += $1 } END { print sum + 0 }'; }
seen="server: relations $(grep -c '"type":"relation"' memory.jsonl); import: $added, $skipped; in notes: boils $(count boils), owns $(count owns)"
echo "$seen"
[ "$seen" = "server: relations 2; import: Added 2 relations, Skipped 0 entities; in notes: boils 1, owns 0" ]
