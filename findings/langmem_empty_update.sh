#!/bin/sh
# langmem 0.0.30: its tool to manage memories overwrites a memory with nothing, and reports what it did not do as done.
#
# Load: create_manage_memory_tool on LangGraph's InMemoryStore, called as a model may call it, since its schema allows each of
# these: a memory is created, and updated by its id without content; then an id that nobody has is updated and deleted.
# Expected: a refusal that the content is missing, since to delete is an action of its own, and a word that there is no
# such memory. A missing id is refused so: "You must provide a MEMORY ID".
# Real: the memory's words are replaced by null, and the tool answers "updated memory". The unknown id is "updated" too,
# which makes a second memory, and "Deleted" as if it had been there. A model that mistakes one letter of an id is told
# that it has corrected or removed the fact, while the old one is still found.
#
# Output seen on 2026-12-01:
#   langmem 0.0.30: empty update: updated memory, kept None; unknown id: updated memory, memories 2; delete: Deleted memory; without an id: ValueError
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet langmem==0.0.30 langgraph==1.2.24 langgraph-checkpoint==4.3.2
cat > "$folder/look.py" <<'PYTHON'
from importlib.metadata import version
from uuid import UUID

from langgraph.store.memory import InMemoryStore
from langmem import create_manage_memory_tool

NOBODYS = str(UUID(int=1))
store = InMemoryStore()
tool = create_manage_memory_tool(namespace=("kitchen",), store=store)


def call(**arguments):
    """Return the two words that the tool answers before the id, or the name of its refusal."""
    try:
        return " ".join(tool.invoke(arguments).split()[:2])
    except ValueError as refusal:
        return type(refusal).__name__


call(action="create", content="The kettle is blue.")
(kept,) = store.search(("kitchen",))
emptied = call(action="update", id=kept.key)
words = store.get(("kitchen",), kept.key).value["content"]
unknown = call(action="update", id=NOBODYS, content="The kettle is green.")
memories = len(store.search(("kitchen",)))
call(action="delete", id=NOBODYS)
deleted = call(action="delete", id=NOBODYS)
nameless = call(action="update", content="The kettle is green.")
seen = f"empty update: {emptied}, kept {words}; unknown id: {unknown}, memories {memories}; delete: {deleted}; without an id: {nameless}"
print(f"langmem {version('langmem')}: {seen}")
wanted = "empty update: updated memory, kept None; unknown id: updated memory, memories 2; delete: Deleted memory"
assert seen == f"{wanted}; without an id: ValueError"
PYTHON
"$folder/venv/bin/python" "$folder/look.py"
