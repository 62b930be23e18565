"""Numbers of namespaces: given once however many ask, remembered, and proved by each transaction."""

import asyncio

import pytest

from engramq.workers.db import database as database_module
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from tests.conftest import Database

WRITERS = 8
NOTE = (
    b"insert into audit_log (tenant, namespace, actor, action) "
    b"values (%(tenant)s, %(namespace)s, 'a', 'x') returning tenant"
)
NOTES = b"select namespace from audit_log"


async def note(store: Store, namespace: str) -> int:
    row = await store.write(namespace, lambda tx: tx.row(NOTE))
    assert row is not None
    return int(row["tenant"])


async def notes(store: Store, namespace: str) -> list[str]:
    return [row["namespace"] for row in await store.read(namespace, lambda tx: tx.rows(NOTES))]


@pytest.mark.promise("SC-6")
async def test_a_namespace_that_nobody_wrote_to_reads_as_empty_and_gets_no_number(
    store: Store, database: Database
) -> None:
    await note(store, "ada")
    assert await notes(store, "nobody") == []
    assert database.rows("select namespace from namespaces") == [{"namespace": "ada"}]
    await note(store, "nobody")
    assert await notes(store, "nobody") == ["nobody"]  # what was not there then is not remembered as missing


@pytest.mark.promise("SC-6")
async def test_many_first_writers_at_once_share_one_number(database: Database) -> None:
    stores = [await Store.open(database.url, pool_size=2) for _ in range(4)]
    try:
        for round_number in range(5):
            namespace = f"new {round_number}"
            numbers = await asyncio.gather(*(note(stores[number % 4], namespace) for number in range(WRITERS)))
            assert len(set(numbers)) == 1
            assert await notes(stores[0], namespace) == [namespace] * WRITERS
    finally:
        for store in stores:
            await store.aclose()
    assert database.rows("select count(*) as n from namespaces") == [{"n": 5}]


@pytest.mark.promise("SC-6")
async def test_a_number_is_asked_for_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await note(store, "ada")

    async def again(*_: object) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr(database_module, "ask", again)
    await note(store, "ada")
    assert await notes(store, "ada") == ["ada", "ada"]


@pytest.mark.promise("SC-6", "MT-14")
async def test_a_number_that_is_anothers_since_the_database_was_brought_back_shows_nothing_of_it(
    store: Store, database: Database
) -> None:
    number = await note(store, "ada")
    database.rows("delete from audit_log")
    database.rows("update namespaces set namespace = 'bob' where tenant = %s", number)
    database.rows("insert into audit_log (tenant, namespace, actor, action) values (%s, 'bob', 'b', 'y')", number)
    assert await notes(store, "ada") == []
    database.rows("update namespaces set namespace = 'carol' where tenant = %s", number)
    assert await notes(store, "bob") == []
    assert await note(store, "ada") != number
    assert await notes(store, "ada") == ["ada"]
    assert await notes(store, "carol") == ["bob"]  # its own row, whatever it says


@pytest.mark.promise("MT-14")
async def test_an_emptied_database_gives_new_numbers(store: Store, database: Database) -> None:
    number = await note(store, "ada")
    database.rows("delete from audit_log")
    database.rows("delete from namespaces")
    tries = 0

    async def work(tx: Transaction) -> None:
        nonlocal tries
        tries += 1
        await tx.send(NOTE)

    await store.write("ada", work)
    assert tries == 2
    assert await notes(store, "ada") == ["ada"]
    assert database.rows("select tenant from namespaces") != [{"tenant": number}]


async def test_what_is_remembered_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "TENANTS_KEPT", 2)
    numbers = [await note(store, name) for name in ("a", "b", "c")]
    assert [await note(store, name) for name in ("a", "b", "c")] == numbers
