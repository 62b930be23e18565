"""How much of the evidence a survey shows among 40 extracts, in how many tokens and milliseconds, beside a search.

    python -m bench.survey MEMORIES.jsonl QUERIES.jsonl [--categories event_ordering,summarization]

Files as `bench.retrieval` takes them; a question is the topic, as it is. Memories are imported into a private stack.
Prints a JSON line by category: the share of the evidence among 40, of a survey and of a search, the median and largest
reply of a survey in tokens (o200k), how many surveys say that nothing is about it, and the median milliseconds of both.
"""

import argparse
import asyncio
import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import psycopg
from mcp.client import Client

from bench.common import emit, private_stack
from bench.replies import tokens
from bench.retrieval import MAX_CHARS, Row, bring_in, by_namespace, prepared, read_lines, wait_for_vectors

BENCH: Final = "survey"
SHOWN: Final = 40
_IDS: Final = """
select n.id::text, n.external_id from nodes n where n.tenant = tenant_of(%s) and n.external_id is not null
"""


async def measured(url: str, queries: list[Row], names: dict[str, str]) -> dict[str, list[dict[str, float]]]:
    """Return the figures of each question, by category."""
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    async with Client(url) as client:

        async def call(tool: str, **arguments: Any) -> tuple[dict[str, Any], str, float]:
            started = time.perf_counter()
            result = await client.call_tool(tool, {"limit": SHOWN, **arguments})
            taken_ms = (time.perf_counter() - started) * 1000
            (block,) = result.content
            assert block.type == "text"
            assert result.structured_content is not None
            return result.structured_content, block.text, taken_ms

        for query in queries:
            search, _, search_ms = await call(
                "search_memories", query=query["query"], max_chars=MAX_CHARS, min_relevance=0
            )
            survey, text, survey_ms = await call("survey_memories", topic=query["query"])
            evidence = set(query["evidence"])
            shares = [
                len(evidence & {names.get(item["id"]) for item in several}) / len(evidence)
                for several in (survey["extracts"], search["memories"])
            ]
            figures = {"survey": shares[0], "search": shares[1], "tokens": float(tokens(text))}
            figures["nothing"] = float(survey["answered"] == "no")
            found[str(query["category"])].append(figures | {"survey_ms": survey_ms, "search_ms": search_ms})
    return found


def main() -> None:
    """Measure, and print a line for each category."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memories", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--categories", default="", help="only these, with commas")
    chosen = parser.parse_args()
    wanted = set(filter(None, chosen.categories.split(",")))
    queries = [line for line in read_lines(chosen.queries) if not wanted or str(line["category"]) in wanted]
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    with private_stack() as stack:
        stack.start_workers()
        ports = {namespace: stack.start_gateway(namespace) for namespace in by_namespace(queries)}
        bring_in(prepared(read_lines(chosen.memories), frozenset()), stack.variables)
        with psycopg.connect(stack.owner_url) as owner:
            wait_for_vectors(owner)
            for namespace, several in by_namespace(queries).items():
                names: dict[str, str] = dict(owner.execute(_IDS, (namespace,)).fetchall())
                for category, figures in asyncio.run(
                    measured(f"http://127.0.0.1:{ports[namespace]}/mcp", several, names)
                ).items():
                    rows[category] += figures
    for category, several_figures in sorted(rows.items()):
        columns = {name: [line[name] for line in several_figures] for name in several_figures[0]}
        emit(
            BENCH,
            f"category {category}",
            n=len(several_figures),
            survey=statistics.mean(columns["survey"]),
            search=statistics.mean(columns["search"]),
            nothing=sum(columns["nothing"]),
            tokens=statistics.median(columns["tokens"]),
            tokens_most=max(columns["tokens"]),
            survey_ms=statistics.median(columns["survey_ms"]),
            search_ms=statistics.median(columns["search_ms"]),
        )


if __name__ == "__main__":
    main()
