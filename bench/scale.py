"""How far it goes: `python -m bench.scale [--memories N] [--seconds S] [--write]`. Linux only (/proc).

Prints JSON lines: stores and searches a second with 1, 2 and 4 worker processes on 1 and 2 databases, and the CPU of a
call by kind of process (on two cores that is efficiency, not speed-up); bytes of a memory, of a store's rows in ledger
and audit log, and of a command that waits; and the queue at ten times the measured rates, simulated. With
--write the section of docs/scaling.md is written anew from the lines.
"""

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg
from redis import Redis

from bench.common import McpClient, PrivateStack, Samples, closed_loop, emit, private_stack
from bench.measured import Work
from bench.page import Generated
from bench.processes import processor
from bench.scale_simulation import SECONDS, cores_for, simulate
from bench.scale_sizing import FIGURES, example_table, figures_table
from bench.search import link
from bench.synthetic import Corpus, Texts, filled
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import WorkerKind

BENCH: Final = "scale"
NAMESPACE: Final = "bench"
ARRANGEMENTS: Final = ((1, 1), (1, 2), (1, 4), (2, 2), (2, 4))  # databases, workers
CALLERS: Final = 16
TOKENS: Final = 24
TIMES: Final = 10  # the measured rates
WAITING: Final = 256  # commands that are left to wait
SECTION: Final = Generated("bench.scale")
PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "scaling.md"

Line = dict[str, Any]

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

    def __init__(self, stack: PrivateStack, memories: int, seed: int) -> None:
        self.stack = stack
        corpus, texts = Corpus(memories, seed=seed), Texts()
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


async def _together(fed: Sequence[Fed], seconds: float, tool: str) -> list[Samples]:
    def work(one: Fed) -> Work:
        return one.search if tool == "search" else one.store

    callers = CALLERS // len(fed)
    return await asyncio.gather(*(closed_loop(one.port, callers, seconds, work(one)) for one in fed))


def measure_rates(fed: Sequence[Fed], workers: int, seconds: float) -> list[Line]:
    """Search and store on these databases with so many workers together; return the lines."""
    for one in fed:
        one.start(workers // len(fed))
    asyncio.run(_together(fed, min(seconds, 3.0), "search"))  # models are loaded first
    lines = []
    for tool in ("search", "store"):
        with ExitStack() as noting:
            used = [noting.enter_context(one.stack.cpu_used()) for one in fed]
            taken = asyncio.run(_together(fed, seconds, tool))
            for one in fed:
                one.wait()  # sectors and links of what was stored belong to the store
        calls = sum(len(one.latencies_ms) for one in taken)
        spent = {kind: sum(one.get(kind, 0.0) for one in used) for kind in ("gateway", "worker", "postgres", "redis")}
        lines.append(
            emit(
                BENCH, "rate", tool=tool, databases=len(fed), workers=workers, callers=CALLERS,
                per_s=calls / max(one.seconds for one in taken),
                refused=sum(one.failures.total() for one in taken),
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


def simulated(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of the queue at TIMES the rates that one worker on one database was measured at."""
    found = []
    for line in lines:
        if (line["databases"], line["workers"]) != (1, 1):
            continue
        # As the page shows them, so that whoever reads it can make the same.
        per_s, service_ms = float(round(TIMES * line["per_s"])), round(line["cpu_ms"]["worker"], 2)
        for cores in cores_for(per_s, service_ms):
            came = simulate(per_s, service_ms, cores)
            found.append(
                emit(
                    BENCH, "simulated", tool=line["tool"], per_s=per_s, service_ms=service_ms, worker_cores=cores,
                    load=per_s * service_ms / 1000 / cores, seconds=SECONDS, calls=came.calls,
                    refused_share=came.refused / max(1, came.calls), wait_p50_ms=came.wait_ms(0.5),
                    wait_p99_ms=came.wait_ms(0.99), digits=3,
                )
            )  # fmt: skip
    return found


def figures_of(lines: Sequence[Line]) -> dict[str, float]:
    """Return the figures that the sizing needs, rounded as the page shows them."""
    bytes_line = next(line for line in lines if line["measure"] == "bytes")
    found = {name: round(float(bytes_line[name])) for name in FIGURES if name.endswith("_bytes")}
    for line in lines:
        if line["measure"] == "rate" and (line["databases"], line["workers"]) == (1, 1):
            for kind, spent in line["cpu_ms"].items():
                found[f"{line['tool']}_{kind}_ms"] = round(spent, 2)
    return {name: float(found[name]) for name in FIGURES}


def section(lines: Sequence[Line]) -> str:
    """Return the generated section of the page."""
    figures = figures_of(lines)
    machine = next(line for line in lines if line["measure"] == "machine")
    command = f"`python -m bench.scale --memories {machine['memories']} --seconds {machine['seconds']:g}`"
    rates = [
        f"| {line['tool']} | {line['databases']} | {line['workers']} | {line['per_s']:.1f} | {line['per_cpu_s']:.1f} | "
        + " | ".join(f"{line['cpu_ms'][kind]:.2f}" for kind in ("gateway", "worker", "postgres", "redis"))
        + f" | {line['load_1m']} |"
        for line in lines
        if line["measure"] == "rate"
    ]
    waits = [
        f"| {line['tool']} | {line['per_s']:.0f} | {line['worker_cores']} | {100 * line['load']:.0f} % | "
        f"{line['wait_p50_ms']:.1f} ms | {line['wait_p99_ms']:.1f} ms | {100 * line['refused_share']:.1f} % |"
        for line in lines
        if line["measure"] == "simulated"
    ]
    measured = (
        f"Measured on {machine['date']} by {command} on {machine['cpus']} shared cores ({machine['processor']}), with "
        f"other work on them: the load of each line is in its last column. {CALLERS} callers."
    )
    heads = (
        "| call | databases | workers | calls/s | calls per CPU second | gateway ms | worker ms | PostgreSQL ms | "
        "Redis ms | load |\n|---|---|---|---|---|---|---|---|---|---|\n"
    )
    return "\n\n".join(
        [
            SECTION.begin,
            measured,
            heads + "\n".join(rates),
            figures_table(figures),
            "The worked example, from this table alone:",
            example_table(figures),
            f"The queue at {TIMES} times the rates of the first lines, simulated ({SECONDS:.0f} s, one seed):",
            "| call | calls/s | worker cores | busy | wait p50 | wait p99 | refused |\n|---|---|---|---|---|---|---|\n"
            + "\n".join(waits),
            SECTION.end,
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=20_000, help="on each database")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--write", action="store_true", help="write the section of docs/scaling.md anew")
    parser.add_argument("--from", dest="lines", type=Path, help="lines that were printed before, instead of measuring")
    given = parser.parse_args()
    lines = _read(given.lines) if given.lines else _measured(given.memories, given.seconds)
    lines += simulated([line for line in lines if line["measure"] == "rate"])
    if given.write:
        PAGE.write_text(SECTION.replaced(PAGE.read_text(), section(lines)))


def _read(file: Path) -> list[Line]:
    lines = [json.loads(line) for line in file.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["measure"] in {"machine", "rate", "bytes"}]


def _measured(memories: int, seconds: float) -> list[Line]:
    lines = [
        emit(BENCH, "machine", processor=processor(), memories=memories, seconds=seconds,
             date=datetime.now(UTC).date().isoformat())
    ]  # fmt: skip
    with ExitStack() as stacks:
        fed = [Fed(stacks.enter_context(private_stack()), memories, seed) for seed in (1, 2)]
        for databases, workers in ARRANGEMENTS:
            lines += measure_rates(fed[:databases], workers, seconds)
        lines.append(measure_bytes(fed[0], memories))
    return lines


if __name__ == "__main__":
    main()
