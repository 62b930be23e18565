#!/bin/sh
# Hermes Agent 0.19: a memory with a line that is a section sign is two memories once it is read again.
#
# Load: one entry of three lines is added to the memory, the second line being a section sign alone; then the memory is
# read by a new store, as the next session does.
# Expected: the one entry that was added, or a refusal, since entries are joined by such a line.
# Real: the entry is added with success, and comes back as two. To remove the one leaves the other, without its sense.
#
# Output seen on 2026-11-30:
#   hermes-agent 0.19.0: 1 entry is added: True; read again: ['Rule of the shop:', 'Never sell mint.']; after removal: ['Never sell mint.']
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet hermes-agent==0.19.0
cat > "$folder/look.py" <<'PYTHON'
from importlib.metadata import version

from tools.memory_tool import MemoryStore


def opened():
    store = MemoryStore()
    store.load_from_disk()
    return store


is_added = opened().add("memory", "Rule of the shop:\n\N{SECTION SIGN}\nNever sell mint.")["success"]
again = opened()
entries = list(again.memory_entries)
again.remove("memory", "Rule of the shop")
left = opened().memory_entries
print(
    f"hermes-agent {version('hermes-agent')}: 1 entry is added: {is_added}; read again: {entries}; after removal: {left}"
)
assert is_added
assert entries == ["Rule of the shop:", "Never sell mint."]
assert left == ["Never sell mint."]
PYTHON
HOME="$folder" HERMES_HOME="$folder" "$folder/venv/bin/python" "$folder/look.py"
