#!/bin/sh
# datasets 5.2: Dataset.from_list and from_generator drop each field that the first row lacks.
#
# Load: two memories as objects; the first has no tags, as rows do where an empty field is left out. Then the same two in
# the other order, and the first order through from_generator and through a file of JSON lines.
# Expected: the tags of the second memory, and None for the first, whichever row comes first.
# Real: from_list takes the names of its columns from the first row. The tags are gone without a warning, and no column
# tells that there were some. from_generator does the same. In the other order, and by a file, they stay.
#
# Output seen on 2026-12-01:
#   datasets 5.2.0: tags by from_list: lost; other order: kept; from_generator: lost; a file: kept
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet datasets==5.2.0 pyarrow==26.0.1
cat > "$folder/look.py" <<'PYTHON'
import json
import sys
from importlib.metadata import version
from pathlib import Path

import datasets
from datasets import Dataset

datasets.disable_progress_bars()
folder = Path(sys.argv[1])
ROWS = [{"content": "The kettle is blue."}, {"content": "The pot is green.", "tags": ["kitchen"]}]


def judge(kept):
    """Return whether the tags of the second memory are in a dataset."""
    tags = [row.get("tags") for row in kept]
    return "kept" if ["kitchen"] in tags else "lost"


def generate():
    yield from ROWS


by_generator = Dataset.from_generator(generate, cache_dir=str(folder / "cache"))
lines = folder / "rows.jsonl"
lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
by_file = datasets.load_dataset("json", data_files=str(lines), split="train", cache_dir=str(folder / "cache"))
seen = f"tags by from_list: {judge(Dataset.from_list(ROWS))}; other order: {judge(Dataset.from_list(ROWS[::-1]))}"
seen += f"; from_generator: {judge(by_generator)}; a file: {judge(by_file)}"
print(f"datasets {version('datasets')}: {seen}")
assert seen == "tags by from_list: lost; other order: kept; from_generator: lost; a file: kept"
PYTHON
HF_HUB_OFFLINE=1 HF_HOME="$folder/home" "$folder/venv/bin/python" "$folder/look.py" "$folder"
