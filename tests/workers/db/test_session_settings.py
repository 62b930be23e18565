"""A role or a database that somebody has set otherwise: calls are answered as ever, directly and through a pooler."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest
from psycopg.conninfo import conninfo_to_dict

from engramq.schemas.commands import (
    AddEdge,
    AddNode,
    Command,
    Connect,
    GetMemory,
    ListAudit,
    ListRecentMemories,
    MemoryStats,
    QueryNeighbors,
    Reply,
    SearchMemories,
    Stored,
    StoreMemory,
    UpdateMemory,
)
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE
from engramq.workers.db.conninfo import SESSION
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import AT_LENGTH, Transaction
from tests.assignments import assignment
from tests.workers.conftest import World

# What is set together does not hide what else is set: each row has a value of its own that answers would show.
SETTINGS = (
    ("datestyle = 'SQL, DMY'", "intervalstyle = 'sql_standard'", "timezone = 'Asia/Tokyo'", "bytea_output = 'escape'",
     "lc_numeric = 'C'", "lc_time = 'C'", "extra_float_digits = -15", "array_nulls = off", "xmloption = 'document'"),
    ("datestyle = 'German'", "intervalstyle = 'iso_8601'", "quote_all_identifiers = on",
     "standard_conforming_strings = off", "backslash_quote = 'on'", "transform_null_equals = on"),
    ("enable_seqscan = off", "work_mem = '64kB'", "hnsw.ef_search = 1",
     "plan_cache_mode = 'force_generic_plan'", "gin_fuzzy_search_limit = 1"),
    ("default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on", "exit_on_error = on"),
    ("default_transaction_isolation = 'repeatable read'",), ("search_path = pg_catalog",), ("search_path = ''",),
    ("row_security = off", "enable_indexscan = off"), ("client_encoding = 'SQL_ASCII'",), ("lock_timeout = '1ms'",),
    ("default_text_search_config = 'pg_catalog.german'",),
)  # fmt: skip
# Through a pooler a transaction begins under what its server's role has: these may end it before anything can be set.
BEFORE_SET = tuple(
    (f"{name} = '1ms'",) for name in ("statement_timeout", "transaction_timeout", "idle_in_transaction_session_timeout")
)
# What each setting is in our sessions, and what the role gets instead: not all of these would change an answer above.
HELD = {
    "plan_cache_mode": ("force_custom_plan", "force_generic_plan"), "jit": ("off", "on"),
    "search_path": ("public, pg_temp", "pg_catalog"), "row_security": ("on", "off"), "timezone": ("UTC", "Asia/Tokyo"),
    "datestyle": ("ISO, MDY", "German"), "intervalstyle": ("postgres", "iso_8601"), "bytea_output": ("hex", "escape"),
    "extra_float_digits": ("1", "-15"), "array_nulls": ("on", "off"), "transform_null_equals": ("off", "on"),
    "standard_conforming_strings": ("on", "off"), "gin_fuzzy_search_limit": ("0", "1"),
    "default_transaction_isolation": ("read committed", "serializable"),
    "default_transaction_deferrable": ("off", "on"), "exit_on_error": ("off", "on"),
    "hnsw.iterative_scan": ("relaxed_order", "off"), "hnsw.ef_search": ("100", "1"),
    "hnsw.max_scan_tuples": ("20000", "1"), "statement_timeout": ("30s", "1h"), "transaction_timeout": ("30s", "1h"),
    "lock_timeout": ("5s", "1h"), "idle_in_transaction_session_timeout": ("2500ms", "1h"),
}  # fmt: skip
BOUND_S = 300.0
AT = datetime(2024, 3, 4, 5, 6, 7, 89, tzinfo=UTC)


@pytest.fixture(scope="module")
def kept() -> list[str]:
    return []


@pytest.fixture
async def usual(world: World, kept: list[str]) -> list[str]:
    """What is answered where nothing is altered, kept by the first test for the others."""
    if not kept:
        kept += await answers(world, "usual")
    return kept


@pytest.fixture
def session(request: pytest.FixtureRequest) -> None:
    """Come directly, or as the fixture says that the parameter names."""
    if request.param is not None:
        request.getfixturevalue(request.param)


@pytest.fixture
def altered(world: World, usual: list[str], request: pytest.FixtureRequest) -> Iterator[str]:
    """Alter the workers' login in this database, which holds in sessions that begin afterwards."""
    user, database = conninfo_to_dict(world.database.url)["user"], world.database.name
    for setting in request.param:
        world.rows(f"alter role {user} in database {database} set {setting}")
    yield ", ".join(request.param)
    world.rows(f"alter role {user} in database {database} reset all")


async def answers(world: World, namespace: str) -> list[str]:
    """Store, change, link and read; return what was answered, without ids, scores and times of now."""

    async def ask(command: Command) -> Reply:
        return (await world.complete(assignment(command, namespace=namespace))).reply

    content = "Pump 7 leaks at 1.25 bar \\ 'noon'"
    first = await ask(StoreMemory(content=content, occurred_at=AT, tags=("pumps",), metadata={"x": 0.1, "no": None}))
    assert isinstance(first, Stored)
    other = await ask(StoreMemory(content="The kitchen has a kettle"))
    assert isinstance(other, Stored)
    commands: tuple[Command, ...] = (
        UpdateMemory(memory_id=first.stored.id, metadata={"y": 1e-7, "list": [1, None]}, valid_from=AT),
        Connect(source=first.stored.id, target=other.stored.id, relation="supports", weight=0.1),
        AddNode(label="Person", name="Ada"),
        AddNode(label="City", name="Paris", properties={"since": 1e-7}),
        AddEdge(source_name="Ada", relation="LIVES_IN", target_name="Paris", weight=0.1, valid_from=AT),
        QueryNeighbors(node_name="Ada"),
        GetMemory(memory_id=first.stored.id),
        SearchMemories(query="Which pump leaks at noon?"),
        SearchMemories(query="Pumps in March 2024", since=AT),
        ListRecentMemories(tags=("pumps",)),
        MemoryStats(),
        ListAudit(),
    )
    replies = [first, other, *[await ask(command) for command in commands]]
    return [without_times(msgspec.json.encode(msgspec.to_builtins(reply)).decode()) for reply in replies]


def without_times(text: str) -> str:
    """Return a reply without what differs each time; a time of now that is not now stays."""

    def replaced(found: re.Match[str]) -> str:
        age_s = abs((datetime.fromisoformat(found[0]) - datetime.now(UTC)).total_seconds())
        return "now" if age_s < BOUND_S else found[0]

    text = re.sub(r'"(score|id)":[-0-9.e]+', "", re.sub(r"[0-9a-f]{8}-[-0-9a-f]{27}", "id", text))
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", replaced, text)


@pytest.mark.promise("OP-15")
@pytest.mark.parametrize("altered", SETTINGS + BEFORE_SET, indirect=True)
async def test_an_altered_role_changes_no_answer(world: World, altered: str, usual: list[str]) -> None:
    await compare(world, altered, usual)


@pytest.mark.promise("OP-15")
@pytest.mark.parametrize("altered", SETTINGS, indirect=True)
@pytest.mark.usefixtures("behind_a_pooler")
async def test_an_altered_role_changes_no_answer_through_a_pooler(world: World, altered: str, usual: list[str]) -> None:
    await compare(world, altered, usual)


@pytest.mark.promise("OP-15")
@pytest.mark.parametrize("session", [None, "behind_a_pooler"], indirect=True)
@pytest.mark.parametrize("altered", [[f"{name} = '{other}'" for name, (_, other) in HELD.items()]], indirect=True)
@pytest.mark.usefixtures("altered", "session")
async def test_every_setting_is_ours_whatever_the_role_has(world: World) -> None:
    """Each that is set no longer is noticed here, whether or not the answers above would show it."""

    async def held(tx: Transaction) -> dict[str, str]:
        rows = await tx.rows(b"select name, current_setting(name) as it from unnest(%(n)s::text[]) name", n=list(HELD))
        return {row["name"]: row["it"] for row in rows}

    async with await Store.open(world.database.url) as store:
        assert await store.read("n", held) == {name: ours for name, (ours, _) in HELD.items()}
    assert set(HELD) == set(SESSION)


@pytest.mark.parametrize("session", [None, "behind_a_pooler"], indirect=True)
@pytest.mark.usefixtures("session")
async def test_who_reads_everything_has_time_for_each_statement(world: World) -> None:
    """An export of a million memories ended at the 30 s of other statements: its page of nodes passes all memories."""

    async def held(tx: Transaction) -> dict[str, str]:
        rows = await tx.rows(
            b"select name, current_setting(name) as it from unnest(%(n)s::text[]) name", n=list(AT_LENGTH)
        )
        return {row["name"]: row["it"] for row in rows}

    async with await Store.open(world.database.url) as store:
        await world.keep("The kettle")
        assert await store.snapshot(DEFAULT_NAMESPACE, held) == AT_LENGTH
        assert await store.write_at_length(DEFAULT_NAMESPACE, held) == AT_LENGTH
        assert await store.read(DEFAULT_NAMESPACE, held) == {name: SESSION[name] for name in AT_LENGTH}


async def compare(world: World, altered: str, usual: list[str]) -> None:
    async with await Store.open(world.database.url) as store:
        world.store = store
        world.use()
        assert await answers(world, "altered") == usual, altered
