#!/bin/sh
# basic-memory 0.24.1: of two ChatGPT conversations of one day and title, its import keeps one, and says two.
#
# Load: `basic-memory import chatgpt` of an export with two conversations that began on the same day and are called "New
# chat", as ChatGPT calls those that it has not named yet. Needs Python 3.12 or later. As a control, the same two with
# another title each.
# Expected: two notes, since ids and words differ; at least a word that one has replaced the other.
# Real: one note, that of the later conversation. The file is called by day and title, and the first is written over. The
# program says "Imported 2 conversations" and "Containing 2 messages".
#
# Output seen on 2026-11-30:
#   same title: Imported 2 conversations, notes 1, with the first's words 0; titles of their own: Imported 2 conversations, notes 2, with the first's words 1
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet basic-memory==0.24.1
cat > "$folder/write.py" <<'PYTHON'
import json
import sys


def conversation(key, title, words, at):
    said = {
        "id": f"{key}-1", "author": {"role": "user", "name": None, "metadata": {}}, "create_time": at,
        "content": {"content_type": "text", "parts": [words]}, "status": "finished_successfully", "weight": 1.0,
        "metadata": {}, "recipient": "all",
    }
    nodes = {
        f"{key}-0": {"id": f"{key}-0", "message": None, "parent": None, "children": [f"{key}-1"]},
        f"{key}-1": {"id": f"{key}-1", "message": said, "parent": f"{key}-0", "children": []},
    }
    return {
        "title": title, "create_time": at, "update_time": at, "mapping": nodes, "moderation_results": [],
        "current_node": f"{key}-1", "conversation_id": key, "id": key,
    }


first, second = sys.argv[1:]
noon = 1_735_732_800.0  # 2025-01-01T12:00:00Z
print(
    json.dumps(
        [conversation("a", first, "The kettle is blue.", noon), conversation("b", second, "The pot is green.", noon + 60)]
    )
)
PYTHON
look() {
	export HOME="$folder/$1" BASIC_MEMORY_HOME="$folder/$1/notes"
	mkdir -p "$BASIC_MEMORY_HOME"
	python3 "$folder/write.py" "$2" "$3" > "$HOME/conversations.json"
	told=$("$folder/venv/bin/basic-memory" import chatgpt "$HOME/conversations.json" 2>&1 | grep -o "Imported [0-9]* conversations")
	notes=$(find "$BASIC_MEMORY_HOME" -name '*.md' | wc -l)
	first=$(grep -rl 'The kettle is blue' "$BASIC_MEMORY_HOME" | wc -l)
	echo "$told, notes $notes, with the first's words $first"
}
seen="same title: $(look same 'New chat' 'New chat'); titles of their own: $(look own Kettle Pot)"
echo "$seen"
wanted="same title: Imported 2 conversations, notes 1, with the first's words 0"
[ "$seen" = "$wanted; titles of their own: Imported 2 conversations, notes 2, with the first's words 1" ]
