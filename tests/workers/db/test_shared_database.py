"""How the database that the tests of a process share becomes again what it was."""

import psycopg
import pytest

from tests.conftest import KNOW_MODEL, SHARED_MODEL, Database, TestServers, renewed_if_it_fails

MODELS = "select id, name, sha256, dimensions, retired_at from embedding_models"
KNOWN = [dict(zip(("id", "name", "sha256", "dimensions", "retired_at"), (1, *SHARED_MODEL, None), strict=True))]
VECTOR_INDEXES = "select indexname from pg_indexes where indexname like 'memories\\_embedding\\_%%'"


@pytest.mark.own_database
@pytest.mark.parametrize(
    "change",
    [
        "update embedding_models set sha256 = 'another'",
        "update embedding_models set retired_at = now(); drop index memories_embedding_1",
        "delete from embedding_models; select register_embedding_model('hash', '', 384)",
        "set work_mem = '1MB'; set row_security = off",
    ],
)
def test_emptying_takes_back_what_a_test_did_to_models_and_settings(
    database: Database, emptying: bytes, change: str
) -> None:
    database.rows(KNOW_MODEL, *SHARED_MODEL)
    work_mem = database.rows("show work_mem")
    database.owner.execute(change.encode())
    database.owner.execute(emptying)
    assert database.rows(MODELS) == KNOWN
    assert database.rows(VECTOR_INDEXES) == [{"indexname": "memories_embedding_1"}]
    assert database.rows("show work_mem") == work_mem
    assert database.rows("show row_security") == [{"row_security": "on"}]


@pytest.mark.own_database
def test_what_cannot_be_emptied_is_made_anew(
    servers: TestServers, template: str, database: Database, emptying: bytes
) -> None:
    database.rows("create table beside (tenant integer references namespaces (tenant))")
    database.rows("begin")
    with pytest.raises(psycopg.errors.DivisionByZero):
        database.rows("select 1 / 0")
    with (
        pytest.raises(psycopg.errors.InFailedSqlTransaction),
        renewed_if_it_fails(servers, template, database),
    ):
        database.owner.execute(emptying)
    assert database.rows("select to_regclass('beside') as beside") == [{"beside": None}]
    assert database.rows(MODELS) == KNOWN
