#!/bin/sh
# LangGraph's SqliteStore (langgraph-checkpoint-sqlite 3.1.2): "$ne" leaves out what has no such field, unlike its others.
#
# Load: two items, of which one has the field "state"; both stores of LangGraph search for what is not "done". Then both
# search by a field that is an object: {"place": {"city": "Oslo"}}. As a control, a filter that both answer alike.
# Expected: the same answers, since both are LangGraph's BaseStore, and a program is tried with the one in memory.
# Real: in memory an item without the field is not "done", and is found. SqliteStore compares with NULL, and does not find
# it. An object is compared in memory, and taken for operators by SqliteStore: "Unsupported operator: city".
#
# Output seen on 2026-11-30:
#   equal: memory ['a'], sqlite ['a']; not done: memory ['b'], sqlite []; an object: memory ['a'], sqlite ValueError: Unsupported operator: city
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2
cat > "$folder/look.py" <<'PYTHON'
import sqlite3

from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

ITEMS = {"a": {"state": "done", "place": {"city": "Oslo"}}, "b": {"place": {"city": "Rome"}}}


def found(store, wanted):
    try:
        return sorted(item.key for item in store.search(("tea",), filter=wanted))
    except ValueError as problem:
        return f"ValueError: {problem}"


sqlite = SqliteStore(sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None))
sqlite.setup()
stores = {"memory": InMemoryStore(), "sqlite": sqlite}
for store in stores.values():
    for key, value in ITEMS.items():
        store.put(("tea",), key, value)
FILTERS = {
    "equal": {"state": "done"}, "not done": {"state": {"$ne": "done"}}, "an object": {"place": {"city": "Oslo"}},
}
seen = {name: {kind: found(store, wanted) for kind, store in stores.items()} for name, wanted in FILTERS.items()}
print("; ".join(f"{name}: memory {each['memory']}, sqlite {each['sqlite']}" for name, each in seen.items()))
assert seen == {
    "equal": {"memory": ["a"], "sqlite": ["a"]},
    "not done": {"memory": ["b"], "sqlite": []},
    "an object": {"memory": ["a"], "sqlite": "ValueError: Unsupported operator: city"},
}
PYTHON
"$folder/venv/bin/python" "$folder/look.py"
