"""The arithmetic of docs/scaling.md, "Sizing": from the measured figures of its first table to machines.

Pure: the page is made from it, and a test reads the page's own table and makes the rest again.
"""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

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
    """What so many memories of so many tenants need."""

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
