#!/bin/sh
# sqlite-vec 0.1.9: a vector of zeros is nearer than all but an equal one, or nearer than every other.
#
# Load: four vectors in a table `vec0` with distance_metric=cosine, one of them zeros, as some models give for a text
# without a word that they know; asked for the two nearest of [1, 0, 0], and ordered by vec_distance_cosine.
# Expected: rows 1 ([1, 0, 0]) and 3 ([.9, .1, 0]); row 2 (zeros) last, left out, or refused when it is inserted.
# Real: the distance of row 2 is NULL. It takes the place of row 3 in the first query. It is the very first in the
# second, since SQLite orders NULL first. A memory without known words is told instead of the one that was asked for.
#
# Output seen on 2026-11-30:
#   sqlite-vec v0.1.9: nearest two [(1, 0.0), (2, None)]; ordered [(2, None), (1, 0.0)]
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sqlite-vec==0.1.9 apsw==3.54.1.0
cat > "$folder/look.py" <<'PYTHON'
import struct

import apsw
import sqlite_vec

VECTORS = ([1, 0, 0], [0, 0, 0], [0.9, 0.1, 0], [0, 1, 0])
database = apsw.Connection(":memory:")  # Python's own sqlite3 may be built without extensions
database.enable_load_extension(True)
database.load_extension(sqlite_vec.loadable_path())
database.execute("create virtual table kept using vec0(embedding float[3] distance_metric=cosine)")
for number, vector in enumerate(VECTORS, 1):
    database.execute("insert into kept (rowid, embedding) values (?, ?)", (number, struct.pack("3f", *vector)))
asked = struct.pack("3f", 1, 0, 0)
by_index = "select rowid, distance from kept where embedding match ? and k = 2 order by distance nulls last"
by_function = "select rowid, vec_distance_cosine(embedding, ?) as distance from kept order by distance limit 2"
nearest = database.execute(by_index, (asked,)).fetchall()
ordered = database.execute(by_function, (asked,)).fetchall()
((version,),) = database.execute("select vec_version()").fetchall()
print(f"sqlite-vec {version}: nearest two {nearest}; ordered {ordered}")
assert nearest == [(1, 0.0), (2, None)]
assert ordered == [(2, None), (1, 0.0)]
PYTHON
"$folder/venv/bin/python" "$folder/look.py"
