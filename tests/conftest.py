"""Real PostgreSQL and Redis for every test that asks for them.

`database` is a migrated database that knows the hash embedder and has no rows: one for all tests of a process,
emptied after each, or a new one for a test with the marker own_database, which is for those that change the schema,
rights or settings, read statistics, or need a database that knows no model. `store` is opened on it; `key_prefix` is
a fresh prefix on a shared Redis. Each xdist process has servers of its own, unless ENGRAMQ_TEST_DATABASE_URL (a
superuser's, or the owner's of databases with pgvector) and ENGRAMQ_TEST_REDIS_URL name others. ENGRAMQ_TEST_CITUS_URL
names a database of a Citus cluster that all tests share instead: see `make test-citus`.
"""

import asyncio
import gc
import importlib.util
import logging
import os
import re
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import hypothesis
import psycopg
import pytest
from psycopg.rows import dict_row

from bench.servers import running_servers
from engramq.workers.db.conninfo import WORKER_ROLE
from engramq.workers.db.database import Store
from engramq.workers.db.migrate import migrate

TESTS = Path(__file__).resolve().parent
CITUS = os.environ.get("ENGRAMQ_TEST_CITUS_URL", "")
MEMORY = Path("/dev/shm")
LOCK_S = 10  # nobody holds a lock so long, least of all a test that has ended
ROOM = 8 * 2**30  # bytes; four processes' servers, with 1 GB of WAL each at most, and what tests start themselves


# The make target of tests that `make test` has no room for, or that need more than Python: by folder or file, the
# longest that fits. NEEDS names the package that only the target's own environment has.
TARGETS = {
    "agents": "agents",
    "citus": "citus",
    "client": "stack",
    "clients": "clients",
    "conformance": "conformance",
    "deploy": "stack",
    "deploy/importing": "unit",
    "deploy/manifests": "deploy",
    "deploy/manifests/test_image.py": "image",
    "gateway/ui": "stack",
    "integrations": "stack",
    "model_packages": "models",
    "packaging": "stack",
    "packaging/installed": "package",
    "page": "page",
    "providers": "providers",
    "rest_contract": "rest",
    "scale": "scale",
    "stack": "stack",
    "telemetry/metrics": "stack",
    "workers/webhooks": "stack",
}
NEEDS = {"model_packages": "fastembed", "page": "playwright"}
TEST_S = 0.1  # what a test takes beside others, on two cores
# Files that take three times as long as their number of tests says, and more than 7 s: seconds likewise.
SLOW = {
    "bench/test_trace.py": 31,
    "deploy/local/test_faulty_disks.py": 45,
    "deploy/local/test_faulty_homes.py": 40,
    "deploy/local/test_restored_code.py": 35,
    "deploy/test_commands.py": 70,
    "faults/test_homes.py": 105,
    "faults/test_short.py": 37,
    "gateway/ui/test_private_doors.py": 30,
    "packaging/test_wheel.py": 20,
    "queue/test_clocks.py": 8,
    "queue/test_failures.py": 8,
    "scenarios/test_export_command.py": 46,
    "scenarios/test_import_command.py": 10,
    "scenarios/test_import_memories.py": 46,
    "stack/test_backup.py": 49,
    "stack/test_hung.py": 60,
    "stack/test_whole_stack.py": 53,
    "telemetry/metrics/test_figures.py": 18,
    "workers/db/test_faults.py": 10,
    "workers/db/test_fresh_cluster.py": 12,
    "workers/db/test_migrations.py": 10,
    "workers/memories/test_bulk_loads.py": 7,
    "workers/memories/test_kept_plans.py": 8,
    "workers/search/recall/test_copies.py": 8,
    "workers/search/recall/test_equal_vectors.py": 22,
    "workers/search/recall/test_plans.py": 11,
    "workers/tenants/test_export.py": 9,
    "workers/tenants/test_private.py": 11,
    "workers/tenants/test_restoring.py": 10,
    "workers/tenants/test_row_security.py": 18,
    "workers/test_command_line.py": 8,
    "workers/upkeep/test_reembedding.py": 14,
}
SHARED_MODEL = ("hash", "", 384)  # of most tests: its index is made once
KNOW_MODEL = "select register_embedding_model(%s, %s, %s)"
FORGET_MODELS = f"""
delete from reembedding;
do $$
declare
    model smallint;
begin
    for model in delete from embedding_models where id > 1 returning id loop
        execute format('drop index if exists %I', 'memories_embedding_' || model);
        perform setval(pg_get_serial_sequence('embedding_models', 'id'), 1);
    end loop;
    insert into embedding_models as known (id, name, sha256, dimensions) overriding system value
    values (1, {", ".join(map(repr, SHARED_MODEL))})
    on conflict (id) do update set
        name = excluded.name, sha256 = excluded.sha256, dimensions = excluded.dimensions, retired_at = null
    where (known.name, known.sha256, known.dimensions, known.retired_at)
        is distinct from (excluded.name, excluded.sha256, excluded.dimensions, null);
    if found then
        perform make_vector_index(1::smallint);
    end if;
end
$$
"""
# What a database is beside its rows, mostly by the transactions that wrote it; indexes by their texts, since upkeep may
# make them anew.
DEFINITIONS = """
select (select array_agg((relname, relacl, reloptions, relrowsecurity)::text order by relname) from pg_class
     where relnamespace = 'public'::regnamespace and relkind <> all('{i,I}')) as relations,
    (select array_agg(indexdef order by indexdef) from pg_indexes where schemaname = 'public') as indexes,
    (select sum(a.xmin::text::bigint) from pg_attribute a join pg_class c on c.oid = attrelid
     where relnamespace = 'public'::regnamespace and relkind <> all('{i,I}')) as columns,
    (select sum(xmin::text::bigint) from pg_constraint where connamespace = 'public'::regnamespace) as constraints,
    (select sum(xmin::text::bigint) from pg_proc where pronamespace = 'public'::regnamespace) as functions,
    (select sum(xmin::text::bigint) from pg_trigger) as triggers,
    (select sum(xmin::text::bigint) from pg_policy) as policies,
    (select array_agg(setconfig order by setrole) from pg_db_role_setting
     where setdatabase = (select oid from pg_database where datname = current_database())) as settings
"""
UNIT = "unit"
LONG = "long"  # `-m long` alone leaves out the files without this mark


def target_of(path: Path) -> str:
    """Return the make target that runs a test file: `unit` for what `make test` runs."""
    inside = f"{path.relative_to(TESTS).as_posix()}/"
    fitting = [place for place in TARGETS if inside.startswith(f"{place}/")]
    return TARGETS[max(fitting, key=len)] if fitting else UNIT


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --target."""
    parser.addoption(
        "--target", help="run the tests of this make target, such as stack; default: unit, or all that is named"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the environment of the processes that run tests.

    Temporary files are kept in memory where there is room: on some disks a database takes 0.2 s to make, here 0.01 s.
    Matrices are multiplied in one thread a process: threads that wait for each other spin, which doubles their cost.
    How long generated examples take says nothing where others use the processors; CI generates the same ones each time,
    so that it fails for what was changed, and `--hypothesis-profile=thorough` looks for longer. Programs that tests
    start would inherit that Ctrl-C is ignored, as it is in what a shell runs in the background. The home of a developer
    who uses engramq has noted a principal: three tests failed by it after `make run`.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, examples in (("shared-machine", 50), ("thorough", 2_000)):
        hypothesis.settings.register_profile(
            name, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], max_examples=examples,
            derandomize="CI" in os.environ,
        )  # fmt: skip
    hypothesis.settings.load_profile("shared-machine")
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
    if wanted_target(config) == UNIT:
        os.environ["ENGRAMQ_HOME"] = str(Path(tempfile.gettempdir()) / f"engramq-no-home-{os.getpid()}")


def wanted_target(config: pytest.Config) -> str | None:
    """Return the make target whose tests are wanted; None where files or folders are named."""
    target: str | None = config.getoption("--target")
    return UNIT if target is None and config.args_source.name != "ARGS" else target


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what cannot be imported here or is not wanted: importing all takes 10 s of CPU a process."""
    needed = NEEDS.get(collection_path.name)
    if needed is not None and importlib.util.find_spec(needed) is None:
        return True
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    target = wanted_target(config)
    is_other = target is not None and target_of(collection_path) != target
    is_short = config.option.markexpr == LONG and f"mark.{LONG}" not in collection_path.read_text(encoding="utf-8")
    return True if is_other or is_short else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes longest: each file runs in one process, and the others must not wait for it at the end."""
    sizes = Counter(item.path for item in items)
    seconds = {path: SLOW.get(path.relative_to(TESTS).as_posix(), size * TEST_S) for path, size in sizes.items()}
    items.sort(key=lambda item: -seconds[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what collecting makes out of the collector's way.

    Looking for garbage meanwhile takes a sixth of the time, in each process, and each later look at all of it tenths of
    a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@dataclass(frozen=True)
class TestServers:
    """Where PostgreSQL (for a role that may create databases) and Redis are."""

    __test__ = False

    database_url: str
    redis_url: str
    worker_may_log_in: bool
    administrator: "psycopg.Connection[tuple[Any, ...]]"

    def url(self, database: str, role: str | None = None) -> str:
        parts = urlsplit(self.database_url)
        netloc = parts.netloc if role is None else f"{role}@{parts.netloc.rpartition('@')[2]}"
        return parts._replace(netloc=netloc, path=f"/{database}").geturl()

    def administer(self, statement: str) -> None:
        self.administrator.execute(statement.encode())


@dataclass(frozen=True)
class Database:
    """One database: `url` is what workers get, `owner_url` what migrations get."""

    name: str
    url: str
    owner_url: str

    @cached_property
    def owner(self) -> "psycopg.Connection[dict[str, Any]]":
        """The owner's connection: one for all questions of tests, which are many."""
        return psycopg.connect(
            self.owner_url, autocommit=True, row_factory=dict_row, prepare_threshold=None,
            options=f"-c lock_timeout={LOCK_S}s",
        )  # fmt: skip

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Run a query as the owner, past everything that the workers' role may not see."""
        cursor = self.owner.execute(query.encode(), values)
        return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        if "owner" in vars(self):
            vars(self).pop("owner").close()


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Take off what a test's program has put on the root logger: it would write to a stream that is closed by then."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in root.handlers[:]:
        if handler not in handlers:
            root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def servers() -> Iterator[TestServers]:
    database_url = CITUS or os.environ.get("ENGRAMQ_TEST_DATABASE_URL", "")
    redis_url = os.environ.get("ENGRAMQ_TEST_REDIS_URL", "")
    with ExitStack() as owned:
        if not (database_url and redis_url):
            home = Path(tempfile.mkdtemp(prefix="engramq-test-"))
            owned.callback(shutil.rmtree, home, ignore_errors=True)
            running = owned.enter_context(running_servers(home, fsync=False))
        embedded = not database_url or bool(CITUS)
        database_url = database_url or running.database_url_owner
        administrator = owned.enter_context(psycopg.connect(database_url, autocommit=True))
        yield TestServers(database_url, redis_url or running.redis_url, embedded, administrator)


def statements_of(script: str) -> list[str]:
    """Return the statements of a script of SQL, each with its semicolon."""
    return re.findall(r"(?:\$\$.*?\$\$|'[^']*'|--[^\n]*|[^;$'-]|-(?!-))+;", script, re.DOTALL)


@pytest.fixture(scope="session")
def template(servers: TestServers) -> Iterator[str]:
    """The name of a migrated database that nobody is connected to; of Citus the one that there is, spread by now."""
    if CITUS:
        if asyncio.run(migrate(CITUS)):
            script = (TESTS.parent / "deploy" / "citus.sql").read_text(encoding="utf-8")
            with psycopg.connect(CITUS) as connection:
                connection.execute("set citus.shard_count to 2")
                for statement in statements_of(script):  # Citus plans a string of several as one
                    connection.execute(statement.encode())
        yield urlsplit(CITUS).path.removeprefix("/")
        return
    name = f"engramq_template_{uuid4().hex[:12]}"
    servers.administer(f"create database {name}")
    try:
        asyncio.run(migrate(servers.url(name)))
        yield name
    finally:
        servers.administer(f"drop database {name} with (force)")


@contextmanager
def new_database(servers: TestServers, template: str) -> Iterator[Database]:
    """Make a migrated database that is dropped at the end."""
    if CITUS:
        database = Database(template, servers.url(template, WORKER_ROLE), CITUS)
        yield database
        database.close()
        return
    name = f"engramq_test_{uuid4().hex[:12]}"
    servers.administer(f"create database {name} template {template} strategy file_copy")
    role = WORKER_ROLE if servers.worker_may_log_in else None
    database = Database(name, servers.url(name, role), servers.url(name))
    try:
        yield database
    finally:
        database.close()
        servers.administer(f"drop database {name} with (force)")


@pytest.fixture(scope="session")
def emptying(servers: TestServers, template: str) -> bytes:
    """Return the statements that take the rows of all namespaces out of a migrated database, referring tables first."""
    with psycopg.connect(servers.url(template)) as connection:
        rows = connection.execute("""
            select c.relname, array(
                select distinct conrelid::regclass::text from pg_constraint
                where confrelid = c.oid and contype = 'f' and conrelid <> c.oid and conparentid = 0
            )
            from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant'
            where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        """).fetchall()
    referring: dict[str, list[str]] = dict(rows)
    emptied = "; ".join(f"delete from {table}" for table in TopologicalSorter(referring).static_order())
    return (emptied if CITUS else f"reset all; {emptied}; {FORGET_MODELS}").encode()


@pytest.fixture(scope="session")
def shared_database(servers: TestServers, template: str) -> Iterator[Database]:
    with new_database(servers, template) as database:
        database.rows(KNOW_MODEL, *SHARED_MODEL)
        yield database


@contextmanager
def renewed_if_it_fails(servers: TestServers, template: str, database: Database) -> Iterator[None]:
    """Make the shared database anew, of the same name, where the block fails to tidy it: later tests need it."""
    try:
        yield
    except Exception:
        if not CITUS:
            renew(servers, template, database)
        raise


def renew(servers: TestServers, template: str, database: Database) -> None:
    """Make the shared database anew, of the same name."""
    database.close()
    servers.administer(f"drop database {database.name} with (force)")
    servers.administer(f"create database {database.name} template {template} strategy file_copy")
    database.rows(KNOW_MODEL, *SHARED_MODEL)


@pytest.fixture(scope="module")
def tidied_database(
    request: pytest.FixtureRequest, servers: TestServers, template: str, shared_database: Database
) -> Iterator[Database]:
    """The shared database, whose schema, rights and settings are at the end of a module what they were at its begin.

    It is vacuumed then: dead entries of the vector index would cost the searches of later modules time. Where tests run
    whole processes, as clients do, these register their models: then it is made anew.
    """
    if CITUS:
        yield shared_database
        return
    before = shared_database.rows(DEFINITIONS)
    yield shared_database
    with renewed_if_it_fails(servers, template, shared_database):
        after = shared_database.rows(DEFINITIONS)
        if after != before and wanted_target(request.config) not in {None, UNIT}:
            renew(servers, template, shared_database)
            return
        assert after == before, "a test has changed the shared database: mark it own_database"
        shared_database.rows("vacuum (skip_database_stats)")


@pytest.fixture
def database(
    request: pytest.FixtureRequest, servers: TestServers, template: str, emptying: bytes
) -> Iterator[Database]:
    if request.node.get_closest_marker("own_database") is not None:
        with new_database(servers, template) as own:
            yield own
        return
    shared: Database = request.getfixturevalue("tidied_database")
    yield shared
    with renewed_if_it_fails(servers, template, shared):
        shared.owner.execute(emptying)


@pytest.fixture
def empty_database(servers: TestServers) -> Iterator[Database]:
    """A database that no migration has touched."""
    name = f"engramq_test_{uuid4().hex[:12]}"
    servers.administer(f"create database {name}")
    try:
        yield Database(name, servers.url(name, WORKER_ROLE), servers.url(name))
    finally:
        servers.administer(f"drop database {name} with (force)")


# The open store of the shared database, by the database's URL. Its sessions know all tables, which takes a new one a
# tenth of a second; new ones for the workers of each test cost more than many tests ask.
shared_stores: dict[str, Store] = {}


@pytest.fixture(scope="session")
async def shared_store(shared_database: Database) -> AsyncIterator[Store]:
    async with await Store.open(shared_database.url) as opened:
        shared_stores[shared_database.url] = opened
        yield opened
        del shared_stores[shared_database.url]


@pytest.fixture
async def own_store(database: Database) -> AsyncIterator[Store]:
    async with await Store.open(database.url) as opened:
        yield opened


@pytest.fixture
def store(request: pytest.FixtureRequest, database: Database) -> Store:
    """A store on `database`, shared or of the test as that is: each new session learns all tables anew."""
    own = request.node.get_closest_marker("own_database") is not None
    opened: Store = request.getfixturevalue("own_store" if own else "shared_store")
    opened._tenants.clear()  # namespaces went with the rows of the test before
    return opened


@pytest.fixture
def redis_url(servers: TestServers) -> str:
    return servers.redis_url


@pytest.fixture
def key_prefix() -> str:
    return f"test-{uuid4().hex[:12]}"
