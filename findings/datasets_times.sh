#!/bin/sh
# datasets 5.2: a memory whose words look like a time comes back as a number, and its time too.
#
# Load: a file of JSON lines with two memories, read by load_dataset("json") and written by to_json: texts, and times with
# a zone ("2026-01-02T03:04:05+02:00"). As a control, the same file where one text of the two is no time.
# Expected: the file as it was, since each value in it is a string; at least the moment that was meant.
# Real: a column of which every string reads as a time becomes Value("timestamp[s]"), in UTC but without a zone. So
# to_json writes milliseconds since 1970 as a number, for the text as for the time. One other text in the column is
# enough to keep the strings, so the type hangs on what the rows happen to say. Where the features are given as strings,
# the text stays, and the time is rewritten all the same: two hours earlier, in another form, without its zone.
# Memories that pass through a dataset lose their words, and an import that wants a time in ISO 8601 gets a number.
#
# Output seen on 2026-12-01:
#   datasets 5.2.0: all texts are times: [1767323045000, 1767315845000]; one is not: ['2026-01-02 03:04:05', 1767315845000]; features given: ['2026-01-02 03:04:05', '2026-01-02 01:04:05']
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

datasets.disable_progress_bars()
folder = Path(sys.argv[1])
TEXT, TIME = "2026-01-02 03:04:05", "2026-01-02T03:04:05+02:00"
STRINGS = datasets.Features({"content": datasets.Value("string"), "at": datasets.Value("string")})


def pass_through(name, other, features=None):
    """Return text and time of the first memory after a dataset has read and written both."""
    before, after = folder / f"{name}.jsonl", folder / f"{name}-after.jsonl"
    rows = ({"content": TEXT, "at": TIME}, {"content": other, "at": TIME})
    before.write_text("".join(json.dumps(row) + "\n" for row in rows))
    kept = datasets.load_dataset(
        "json", data_files=str(before), split="train", cache_dir=str(folder / "cache"), features=features
    )
    kept.to_json(after)
    first = json.loads(after.read_text().splitlines()[0])
    return [first["content"], first["at"]]


times = pass_through("times", "2026-03-04 05:06:07")
mixed = pass_through("mixed", "The kettle is blue.")
given = pass_through("given", "2026-03-04 05:06:07", STRINGS)
print(f"datasets {version('datasets')}: all texts are times: {times}; one is not: {mixed}; features given: {given}")
assert times == [1767323045000, 1767315845000]
assert mixed == [TEXT, 1767315845000]
assert given == [TEXT, "2026-01-02 01:04:05"]
PYTHON
HF_HUB_OFFLINE=1 HF_HOME="$folder/home" "$folder/venv/bin/python" "$folder/look.py" "$folder"
