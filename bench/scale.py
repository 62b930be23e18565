"""How far it goes: `python -m bench.scale [--memories N] [--seconds S] [--write]`. Linux only (/proc).

Prints JSON lines: stores and searches a second with 1, 2 and 4 worker processes, and the CPU of a call by kind of
process (on two cores that is efficiency, not speed-up); bytes of a memory, of a store's rows in ledger and audit log,
and of a command that waits. With --write the section of docs/scaling.md is written anew from the lines, with a worked
example of sizes that follows from them.
"""

import argparse
import asyncio
import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg
from redis import Redis

from bench.common import McpClient, PrivateStack, closed_loop, emit, private_stack, processor
from bench.measured import Work
from bench.page import Generated, Line, read_printed
from bench.synthetic import Corpus, Texts, filled, link
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import WorkerKind

GB: Final = 1_000_000_000
BUSY: Final = 0.6  # of a core that is counted on: the rest is for peaks, and for a machine that is gone
SEARCHES_PER_STORE: Final = 4.0
CALLS_PER_MEMORY_A_DAY: Final = 0.2  # stores and searches of a day by what there is
PEAK: Final = 3.0  # the busiest second over the mean of the day
DAY_S: Final = 86_400.0
AUDIT_DAYS: Final = 365.0  # rows of the audit log that are kept, as the example assumes
LEDGER_DAYS: Final = 7.0  # likewise of the ledger
BACKUP: Final = 2.0  # disk for WAL, free room of tables, an index that is built anew

# (name in the table, what it is): the measured figures that the example needs.
FIGURES: Final = {
    "table_bytes": "bytes of a memory in tables",
    "hnsw_bytes": "bytes of a memory in the vector index (HNSW)",
    "text_bytes": "bytes of a memory in the text index (GIN)",
    "index_bytes": "bytes of a memory in other indexes",
    "link_bytes": "bytes of a memory's links",
    "ledger_bytes": "bytes of a store in the ledger",
    "audit_bytes": "bytes of a store in the audit log",
    "redis_bytes": "bytes of a command that waits in Redis",
    "search_gateway_ms": "CPU ms of a search in the gateway",
    "search_worker_ms": "CPU ms of a search in a worker",
    "search_postgres_ms": "CPU ms of a search in PostgreSQL",
    "search_redis_ms": "CPU ms of a search in Redis",
    "store_gateway_ms": "CPU ms of a store in the gateway",
    "store_worker_ms": "CPU ms of a store in a worker",
    "store_postgres_ms": "CPU ms of a store in PostgreSQL",
    "store_redis_ms": "CPU ms of a store in Redis",
}
CASES: Final = ((1_000_000, 10), (100_000_000, 10_000), (1_000_000_000, 100_000))  # memories, tenants


class Need(NamedTuple):
    """The machines that so many memories of so many tenants need."""

    memories: int
    tenants: int
    stores_per_s: float  # at the peak
    searches_per_s: float
    index_gb: float  # of vectors: has to be in memory
    memory_gb: float  # for PostgreSQL: the vectors' index, the texts', a tenth of the tables
    disk_gb: float
    gateway_cores: int
    worker_cores: int
    postgres_cores: int
    redis_cores: float


def need(figures: Mapping[str, float], memories: int, tenants: int) -> Need:
    """Return what the figures of one call and one memory come to."""
    calls_per_s = memories * CALLS_PER_MEMORY_A_DAY / DAY_S * PEAK
    stores = calls_per_s / (1 + SEARCHES_PER_STORE)
    searches = calls_per_s - stores
    stores_a_day = memories * CALLS_PER_MEMORY_A_DAY / (1 + SEARCHES_PER_STORE)
    kept = figures["table_bytes"] + figures["text_bytes"] + figures["index_bytes"] + figures["link_bytes"]
    logs = stores_a_day * (AUDIT_DAYS * figures["audit_bytes"] + LEDGER_DAYS * figures["ledger_bytes"])
    index = memories * figures["hnsw_bytes"]

    def cores(kind: str) -> float:
        spent_ms = searches * figures[f"search_{kind}_ms"] + stores * figures[f"store_{kind}_ms"]
        return spent_ms / 1000 / BUSY

    return Need(
        memories,
        tenants,
        stores,
        searches,
        index / GB,
        (index + memories * (figures["text_bytes"] + 0.1 * (figures["table_bytes"] + figures["link_bytes"]))) / GB,
        BACKUP * (memories * kept + index + logs) / GB,
        math.ceil(cores("gateway")),
        math.ceil(cores("worker")),
        math.ceil(cores("postgres")),
        cores("redis"),
    )


def figures_table(figures: Mapping[str, float]) -> str:
    """Return the table of the measured figures; `read_figures` reads it back."""
    rows = [f"| `{name}` | {meaning} | {figures[name]:g} |" for name, meaning in FIGURES.items()]
    return "\n".join(["| figure | what | measured |", "|---|---|---|", *rows])


def read_figures(page: str) -> dict[str, float]:
    """Return the figures of the table in a page."""
    found = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0].strip("`") in FIGURES:
            found[cells[0].strip("`")] = float(cells[2])
    return found


def example_table(figures: Mapping[str, float]) -> str:
    """Return the worked example: a row for each case."""
    head = (
        "| memories | tenants | stores/s | searches/s | vector index | RAM of PostgreSQL | disk | gateway cores | "
        "worker cores | PostgreSQL cores | Redis cores |\n|---|---|---|---|---|---|---|---|---|---|---|"
    )
    return "\n".join([head, *(_row(need(figures, *case)) for case in CASES)])


def _row(one: Need) -> str:
    cells = (
        f"{one.memories:,}", f"{one.tenants:,}", f"{one.stores_per_s:,.1f}", f"{one.searches_per_s:,.1f}",
        f"{one.index_gb:,.1f} GB", f"{one.memory_gb:,.1f} GB", f"{one.disk_gb:,.0f} GB", f"{one.gateway_cores:,}",
        f"{one.worker_cores:,}", f"{one.postgres_cores:,}", f"{one.redis_cores:,.2f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


BENCH: Final = "scale"
NAMESPACE: Final = "bench"
WORKERS: Final = (1, 2, 4)
CALLERS: Final = 16
TOKENS: Final = 24
WAITING: Final = 256  # commands that are left to wait
SECTION: Final = Generated("bench.scale")
PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "scaling.md"


UNFINISHED: Final = b"select 1 from memories where sector_source is null or links_made_at is null limit 1"

# By relation: what it is of. Links are edges; what is neither is an index that no row of FIGURES has on its own.
SIZES: Final = b"""
    select coalesce(i.relkind, c.relkind)::text as kind, a.amname as method, c.relname as owner,
           case when i.oid is null then pg_table_size(c.oid) else pg_relation_size(i.oid) end as bytes
    from pg_class c
    left join lateral (
        select x.oid, x.relkind, x.relam from pg_index p join pg_class x on x.oid = p.indexrelid
        where p.indrelid = c.oid
        union all select null, null, null
    ) i on true
    left join pg_am a on a.oid = i.relam
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
"""


class Fed:
    """A stack that is filled, its gateway, and what is asked of it."""

    def __init__(self, stack: PrivateStack, memories: int) -> None:
        self.stack = stack
        corpus, texts = Corpus(memories), Texts()
        filled(stack, corpus, BENCH)
        link(stack.owner_url)
        self.loaded = sizes(stack)
        self._questions: Iterator[str] = (f"{corpus.text(3, 8)} {number}" for number in itertools.count())
        self.contents: Iterator[str] = (f"{texts.of(TOKENS)} {number}" for number in itertools.count())
        self.port = 0

    def start(self, workers: int) -> None:
        """Have so many workers, and a gateway."""
        self.stack.stop_workers()
        self.stack.start_workers(workers)
        self.port = self.port or self.stack.start_gateway(NAMESPACE)

    def wait(self) -> None:
        """Return when nothing that was stored lacks its sector or its links."""
        with psycopg.connect(self.stack.owner_url, autocommit=True) as connection:
            while connection.execute(UNFINISHED).fetchall():
                time.sleep(0.2)

    async def search(self, client: McpClient) -> None:
        await client.call("search_memories", query=next(self._questions))

    async def store(self, client: McpClient) -> None:
        await client.call("store_memory", content=next(self.contents))


def sizes(stack: PrivateStack) -> dict[str, int]:
    """Return the bytes of the rows by what they are of."""
    found: dict[str, int] = {}
    with psycopg.connect(stack.owner_url, autocommit=True) as connection:
        connection.execute(b"vacuum analyze")
        for kind, method, owner, size in connection.execute(SIZES).fetchall():
            name = _part(owner, kind, method)
            found[name] = found.get(name, 0) + size
    return found


def _part(owner: str, kind: str, method: str | None) -> str:
    if owner in {"edges", "ledger"}:
        return {"edges": "link", "ledger": "ledger"}[owner]
    if owner.startswith("audit"):
        return "audit"
    if kind == "r":
        return "table"
    return {"hnsw": "hnsw", "gin": "text"}.get(str(method), "index")


def measure_rates(fed: Fed, workers: int, seconds: float) -> list[Line]:
    """Search and store with so many workers; return the lines."""
    fed.start(workers)
    asyncio.run(closed_loop(fed.port, CALLERS, min(seconds, 3.0), fed.search))  # models are loaded first
    lines = []
    works: Mapping[str, Work] = {"search": fed.search, "store": fed.store}
    for tool, work in works.items():
        with fed.stack.cpu_used() as used:
            taken = asyncio.run(closed_loop(fed.port, CALLERS, seconds, work))
            fed.wait()  # sectors and links of what was stored belong to the store
        calls = len(taken.latencies_ms)
        spent = {kind: used.get(kind, 0.0) for kind in ("gateway", "worker", "postgres", "redis")}
        lines.append(
            emit(
                BENCH, "rate", tool=tool, workers=workers, callers=CALLERS, per_s=calls / taken.seconds,
                refused=taken.failures.total(),
                cpu_ms={kind: round(1000 * seconds_ / max(1, calls), 3) for kind, seconds_ in spent.items()},
                per_cpu_s=calls / max(0.001, sum(spent.values())),
            )
        )  # fmt: skip
    return lines


def measure_bytes(fed: Fed, memories: int) -> Line:
    """Return the line of the bytes of one memory, of one store's rows, and of one command that waits."""
    with psycopg.connect(fed.stack.owner_url) as connection:
        ((rows,),) = connection.execute(b"select count(*) from ledger").fetchall()
    now = sizes(fed.stack)
    figures = {
        f"{name}_bytes": fed.loaded.get(name, 0) / memories for name in ("table", "hnsw", "text", "index", "link")
    }
    figures |= {f"{name}_bytes": now.get(name, 0) / max(1, rows) for name in ("ledger", "audit")}
    figures["redis_bytes"] = _waiting_bytes(fed)
    return emit(BENCH, "bytes", memories=memories, stores=rows, synthetic=True, digits=1, **figures)


def _waiting_bytes(fed: Fed) -> float:
    """Return how much Redis grows by a store that waits: nobody serves while WAITING callers come."""
    fed.stack.stop_workers()
    depth_key = Keys("engramq").of[WorkerKind.EMBEDDING].depth

    async def leave_one() -> None:
        async with McpClient.connect(fed.port) as client:
            await client.ask("store_memory", {"content": next(fed.contents)})  # it is told `pending`

    async def leave_all() -> None:
        await asyncio.gather(*(leave_one() for _ in range(WAITING)))

    redis: Any = Redis.from_url(fed.stack.servers.redis_url)
    with redis:
        before = int(redis.info("memory")["used_memory"])
        asyncio.run(leave_all())
        return (int(redis.info("memory")["used_memory"]) - before) / max(1, int(redis.get(depth_key) or 0))


def figures_of(lines: Sequence[Line]) -> dict[str, float]:
    """Return the figures that the sizing needs, rounded as the page shows them."""
    bytes_line = next(line for line in lines if line["measure"] == "bytes")
    found = {name: round(float(bytes_line[name])) for name in FIGURES if name.endswith("_bytes")}
    for line in lines:
        if line["measure"] == "rate" and line["workers"] == 1:
            for kind, spent in line["cpu_ms"].items():
                found[f"{line['tool']}_{kind}_ms"] = round(spent, 2)
    return {name: float(found[name]) for name in FIGURES}


def section(lines: Sequence[Line]) -> str:
    """Return the generated section of the page."""
    figures = figures_of(lines)
    machine = next(line for line in lines if line["measure"] == "machine")
    command = f"`python -m bench.scale --memories {machine['memories']} --seconds {machine['seconds']:g}`"
    rates = [
        f"| {line['tool']} | {line['workers']} | {line['per_s']:.1f} | {line['per_cpu_s']:.1f} | "
        + " | ".join(f"{line['cpu_ms'][kind]:.2f}" for kind in ("gateway", "worker", "postgres", "redis"))
        + f" | {line['load_1m']} |"
        for line in lines
        if line["measure"] == "rate"
    ]
    measured = (
        f"Measured on {machine['date']} by {command} on {machine['cpus']} shared cores ({machine['processor']}), with "
        f"other work on them: the load of each line is in its last column. {CALLERS} callers."
    )
    heads = (
        "| call | workers | calls/s | calls per CPU second | gateway ms | worker ms | PostgreSQL ms | Redis ms "
        "| load |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    return "\n\n".join(
        [
            SECTION.begin,
            measured,
            heads + "\n".join(rates),
            figures_table(figures),
            "The worked example, from this table alone:",
            example_table(figures),
            SECTION.end,
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--write", action="store_true", help="write the section of docs/scaling.md anew")
    parser.add_argument("--from", dest="lines", type=Path, help="lines that were printed before, instead of measuring")
    given = parser.parse_args()
    lines = read_printed([given.lines], BENCH) if given.lines else _measured(given.memories, given.seconds)
    if given.write:
        SECTION.write(PAGE, section(lines))


def _measured(memories: int, seconds: float) -> list[Line]:
    lines = [
        emit(BENCH, "machine", processor=processor(), memories=memories, seconds=seconds,
             date=datetime.now(UTC).date().isoformat())
    ]  # fmt: skip
    with private_stack() as stack:
        fed = Fed(stack, memories)
        for workers in WORKERS:
            lines += measure_rates(fed, workers, seconds)
        lines.append(measure_bytes(fed, memories))
    return lines


if __name__ == "__main__":
    main()
