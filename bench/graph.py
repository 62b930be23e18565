"""Latency of the knowledge graph: get_edge, neighbours and paths over MCP (HTTP), beside the SQL of get_edge alone.

    python -m bench.graph [--nodes 100000] [--edges 300000] [--hub 100000] [--calls 200]

Loads a graph into a database of its own, starts a gateway and a worker process, and prints one JSON line for each
measure: p50 and p95 in milliseconds, one caller with a lean client (a client library's own milliseconds are not the
server's). Most edges hang on few nodes, as in life. Then a hub with `--hub` edges is added, and walks from it and past
it are measured too.
"""

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import psycopg

from bench.common import McpClient, emit, private_stack
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import (
    DEFAULT_LANGUAGE,
    DEFAULT_NAMESPACE,
    ENTITY_LABEL,
    Layer,
    Origin,
    Partition,
    Sector,
    SectorSource,
)
from engramq.workers.db.queries import sql

BENCH: Final = "graph"
RELATIONS: Final = ("KNOWS", "DISCUSSED", "USES", "LOVES", "ATTENDED")
SKEW: Final = 2.0  # how unevenly ends are chosen: place = nodes * random ** SKEW
COPY_NODES: Final = b"copy nodes (id, tenant, label, name, partition) from stdin"
COPY_EDGES: Final = (
    b"copy edges (id, tenant, layer, source_id, target_id, relation, weight, origin, memory_sector, sector_source) "
    b"from stdin"
)
HUB: Final = "hub"
MAKE_TENANT: Final = sql("make_tenant")

Triple = tuple[int, int, str]


class Graph:
    """A random graph, by places; node names are `n` and the place."""

    def __init__(self, nodes: int, edges: int, namespace: str = DEFAULT_NAMESPACE) -> None:
        self.namespace = namespace
        self.tenant = 0  # known when it is loaded
        self.random = random.Random(7)
        self.ids = [UUID(uuid7()) for _ in range(nodes)]
        chosen: set[Triple] = set()
        while len(chosen) < edges:
            chosen.add((self.place(), self.place(), self.random.choice(RELATIONS)))
        self.edges = sorted(chosen)

    def place(self) -> int:
        return int(len(self.ids) * self.random.random() ** SKEW)

    def load(self, connection: psycopg.Connection[Any]) -> None:
        (row,) = connection.execute(MAKE_TENANT, {"namespace": self.namespace, "language": DEFAULT_LANGUAGE})
        self.tenant = int(row[0])
        with connection.cursor() as cursor:
            with cursor.copy(COPY_NODES) as copy:
                for place, node in enumerate(self.ids):
                    copy.write_row((node, self.tenant, ENTITY_LABEL, f"n{place}", Partition.TRUSTED))
            with cursor.copy(COPY_EDGES) as copy:
                for source, target, relation in self.edges:
                    copy.write_row(self._edge(self.ids[source], self.ids[target], relation))

    def add_hub(self, connection: psycopg.Connection[Any], edges: int) -> None:
        hub = UUID(uuid7())
        with connection.cursor() as cursor:
            with cursor.copy(COPY_NODES) as copy:
                copy.write_row((hub, self.tenant, ENTITY_LABEL, HUB, Partition.TRUSTED))
            with cursor.copy(COPY_EDGES) as copy:
                for number in range(edges):
                    relation = RELATIONS[number // len(self.ids) % len(RELATIONS)]
                    copy.write_row(self._edge(hub, self.ids[number % len(self.ids)], relation))

    def triple(self) -> dict[str, Any]:
        """Return the arguments of get_edge for one of the edges."""
        source, target, relation = self.random.choice(self.edges)
        return {"source_name": f"n{source}", "target_name": f"n{target}", "relation": relation}

    def _edge(self, source: UUID, target: UUID, relation: str) -> tuple[Any, ...]:
        weight = round(self.random.uniform(0.2, 1.0), 3)
        kind = (Origin.AGENT, Sector.SEMANTIC, SectorSource.AUTO)
        return (UUID(uuid7()), self.tenant, Layer.KNOWLEDGE, source, target, relation, weight, *kind)


def percentiles(times_s: list[float]) -> dict[str, Any]:
    ranked = sorted(times_s)
    return {
        "p50_ms": round(1000 * statistics.median(ranked), 2),
        "p95_ms": round(1000 * ranked[int(0.95 * (len(ranked) - 1))], 2),
        "max_ms": round(1000 * ranked[-1], 2),
        "calls": len(ranked),
    }


class Meter:
    """Calls a tool again and again and prints how long it took."""

    def __init__(self, client: McpClient) -> None:
        self.client = client

    async def measure(self, name: str, tool: str, arguments: Callable[[], dict[str, Any]], calls: int) -> None:
        times: list[float] = []
        truncated = counted = found = 0
        for number in range(calls + 5):
            given = arguments()
            started = time.perf_counter()
            body = await self.client.call(tool, **given)
            if number < 5:
                continue  # warm-up
            times.append(time.perf_counter() - started)
            assert body["status"] == "success", body
            truncated += bool(body.get("truncated"))
            counted += body.get("count", 0)
            found += bool(body.get("path_found"))
        extra: dict[str, Any] = {}
        if "neighbors" in tool:
            extra = {"truncated": truncated, "nodes_mean": round(counted / calls, 1)}
        elif "path" in tool:
            extra = {"truncated": truncated, "found": found}
        emit(BENCH, name, **percentiles(times), **extra)


async def measure_sql(url: str, graph: Graph, calls: int) -> None:
    """The query of get_edge alone, prepared, on one connection."""
    times = []
    labels = {"source_label": None, "target_label": None, "tenant": graph.tenant}
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for number in range(calls + 20):
            values = graph.triple() | labels
            started = time.perf_counter()
            await (await connection.execute(sql("edge_between_names"), values)).fetchone()
            if number >= 20:
                times.append(time.perf_counter() - started)
    emit(BENCH, "get_edge_sql_alone", **percentiles(times))


async def measure(port: int, database_url: str, graph: Graph, chosen: argparse.Namespace) -> None:
    def anybody() -> str:
        return f"n{graph.edges[graph.random.randrange(len(graph.edges))][0]}"

    await measure_sql(database_url, graph, chosen.calls)
    async with McpClient.connect(port) as client:
        meter = Meter(client)
        await meter.measure("floor_mcp", "get_breadcrumbs", dict, chosen.calls)  # no worker: client, HTTP, gateway
        await meter.measure("get_edge_mcp", "get_edge", graph.triple, chosen.calls)
        for depth in (1, 2, 3):
            await meter.measure(
                f"neighbors_depth_{depth}",
                "graph_query_neighbors",
                lambda depth=depth: {"node_name": anybody(), "depth": depth},  # type: ignore[misc]
                chosen.calls // 4,
            )
        ends = lambda: {"start_node": anybody(), "end_node": anybody(), "max_depth": 10}  # noqa: E731
        await meter.measure("path", "graph_find_path", ends, chosen.calls // 4)
        await asyncio.to_thread(with_hub, database_url, graph, chosen.hub)
        for depth in (1, 2, 3):
            hub = {"node_name": HUB, "depth": depth}
            await meter.measure(f"neighbors_of_hub_depth_{depth}", "graph_query_neighbors", lambda given=hub: given, 20)  # type: ignore[misc]
        from_hub = lambda: {"start_node": HUB, "end_node": anybody(), "max_depth": 10}  # noqa: E731
        await meter.measure("path_from_hub", "graph_find_path", from_hub, 20)
        await meter.measure("path_past_hub", "graph_find_path", ends, 20)


def with_hub(database_url: str, graph: Graph, edges: int) -> None:
    with psycopg.connect(database_url) as connection:
        graph.add_hub(connection, edges)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(b"vacuum analyze nodes, edges")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=300_000)
    parser.add_argument("--hub", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=200)
    chosen = parser.parse_args()
    with private_stack() as stack:
        owner = stack.owner_url
        graph = Graph(chosen.nodes, chosen.edges)
        started = time.perf_counter()
        with psycopg.connect(owner) as connection:
            graph.load(connection)
        with psycopg.connect(owner, autocommit=True) as connection:
            connection.execute(b"vacuum analyze nodes, edges")
        emit(BENCH, "load", nodes=chosen.nodes, edges=chosen.edges, seconds=round(time.perf_counter() - started, 1))
        stack.start_workers()
        asyncio.run(measure(stack.start_gateway(DEFAULT_NAMESPACE), owner, graph, chosen))


if __name__ == "__main__":
    main()
