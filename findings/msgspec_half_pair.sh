#!/bin/sh
# msgspec 0.23: JSON that Python and Node.js write of a text that was cut within an emoji is refused, maybe as "truncated".
#
# Load: a text cut to five UTF-16 units, as previews and logs cut, where the fifth is the first half of an emoji. Node's
# JSON.stringify writes that half as \ud83c, and so does Python's json.dumps. The same with words behind. The lines are
# read by msgspec, by Python's json, and by Node's JSON.parse. Needs Node.js.
# Expected: that msgspec reads what both others read, or names half a surrogate pair as the reason of its refusal.
# Real: it refuses both lines. With words behind it names the pair. Where the text ends at the half it says "Input data
# was truncated", though the line is whole. A reader that tells an unfinished line or document by that message takes a
# finished one for it.
#
# Output seen on 2026-12-01:
#   msgspec 0.23.0: "Tea \ud83c": 'Input data was truncated'; with words behind: 'JSON is malformed: unexpected end of escaped utf-16 surrogate pair'
#     Python's json reads 2 and writes the same: True; Node reads 2
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet msgspec==0.23.0
cat > "$folder/write.mjs" <<'JS'
const cut = "Tea \u{1f375} is green".slice(0, 5); // the emoji takes two units
for (const text of [cut, `${cut}, and more`]) console.log(JSON.stringify(text));
JS
cat > "$folder/read.mjs" <<'JS'
import { readFileSync } from "node:fs";

const lines = readFileSync(process.argv[2], "utf8").trim().split("\n");
console.log(lines.filter((line) => JSON.parse(line).startsWith("Tea \ud83c")).length);
JS
cat > "$folder/look.py" <<'PYTHON'
import json
import sys
from importlib.metadata import version
from pathlib import Path

import msgspec

lines = Path(sys.argv[1]).read_text().splitlines()
by_node = sys.argv[2]


def read(line):
    """Return how msgspec reads a line, without the place in it."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError as problem:
        return str(problem).partition(" (byte")[0]


texts = [json.loads(line) for line in lines]
same = [json.dumps(text) for text in texts] == lines
at_end, within = map(read, lines)
print(f"msgspec {version('msgspec')}: {lines[0]}: {at_end!r}; with words behind: {within!r}")
print(f"  Python's json reads {len(texts)} and writes the same: {same}; Node reads {by_node}")
assert at_end == "Input data was truncated"
assert within == "JSON is malformed: unexpected end of escaped utf-16 surrogate pair"
assert same and by_node == "2"
PYTHON
node "$folder/write.mjs" > "$folder/lines.jsonl"
"$folder/venv/bin/python" "$folder/look.py" "$folder/lines.jsonl" "$(node "$folder/read.mjs" "$folder/lines.jsonl")"
