"""What follows a hit in its thread costs no more in a long thread than in a short one."""

import re
from dataclasses import replace

import pytest

from engramq.schemas.vocabulary import Partition
from engramq.workers.db.database import Store
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.search.candidates import single_partitions
from tests.conftest import Database
from tests.workers.search.recall.test_plans import DIMENSIONS, made
from tools.loading import load


@pytest.mark.own_database
@pytest.mark.promise("KN-9")
@pytest.mark.parametrize("has_positions", [True, False])
async def test_of_a_long_thread_only_what_follows_is_read(database: Database, has_positions: bool) -> None:
    rows = [
        replace(made("talk", number, Partition.TRUSTED), thread="t", project=None, position=number)
        if has_positions
        else replace(made("talk", number, Partition.TRUSTED), thread="t", project=None)
        for number in range(2_000)
    ]
    async with await Store.open(database.url) as store:
        model_id = await store.register_embedding_model("hash", "", DIMENSIONS)
        await load(database.owner_url, model_id, rows, memory="64MB")
        asked = {"ids": [rows[number].id for number in (3, 400, 900, 1_500, 1_990)], "include_superseded": False}
        sides = {"partitions": [Partition.TRUSTED], **single_partitions([Partition.TRUSTED]), "as_of": None}

        async def explain(tx: Transaction) -> str:
            query = b"explain (analyze) " + sql("followed_by")
            return "\n".join(row["QUERY PLAN"] for row in await tx.rows(query, **asked, **sides))

        told = await store.read("talk", explain)
    scans = [line for line in told.splitlines() if "Scan" in line and "memories" in line and "actual" in line]
    read = [float(found[1]) for line in scans if (found := re.search(r"actual .*rows=([\d.]+)", line))]
    assert read, told
    assert max(read) <= 8, told
    assert "Rows Removed by Filter" not in told, told
    assert "Seq Scan on memories" not in told, told
