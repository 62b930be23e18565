#!/bin/sh
# LangGraph's InMemoryStore (langgraph-checkpoint 4.3.2): a date cannot be compared, and a second put renews created_at.
#
# Load: two items with a date in ISO 8601, a search with the filter $gte on it, and a second put of one key.
# Expected: the later item is found, as by LangGraph's stores on disk; created_at is when the item was first put.
# Real: ValueError, since both sides are made numbers; created_at is that of the second put.
#
# Output seen on 2026-11-29:
#   langgraph-checkpoint 4.3.2: filter by date ValueError, created_at renewed True
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet langgraph-checkpoint==4.3.2
cat > "$folder/look.py" <<'PYTHON'
from importlib.metadata import version

from langgraph.store.memory import InMemoryStore

store = InMemoryStore()
store.put(("notes",), "old", {"on": "2026-01-31"})
store.put(("notes",), "new", {"on": "2026-11-02"})
try:
    found = [item.key for item in store.search(("notes",), filter={"on": {"$gte": "2026-06-01"}})]
except ValueError as problem:
    found = type(problem).__name__
first = store.get(("notes",), "old").created_at
store.put(("notes",), "old", {"on": "2026-02-28"})
renewed = store.get(("notes",), "old").created_at != first
print(f"langgraph-checkpoint {version('langgraph-checkpoint')}: filter by date {found}, created_at renewed {renewed}")
raise SystemExit(0 if (found, renewed) == ("ValueError", True) else 1)
PYTHON
"$folder/venv/bin/python" "$folder/look.py"
