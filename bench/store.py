"""store_memory over MCP HTTP, beside embedding alone and one synced insert alone in the same run.

    python -m bench.store [--memories 10000,100000] [--callers 1,8,64,256] [--runs 5] [--seconds 2]

The memories that are there are made up (vectors and words), those that are stored are embedded for real. Prints JSON
lines: medians over the runs. `ratio` is the p50 of one caller over the p50 of embedding one text plus one insert with
both indexes and its commit; its target is 1.5.
"""

import asyncio
import itertools

from bench.common import McpClient, private_stack
from bench.measured import Load, beside_parts, parse_options
from bench.synthetic import Corpus, Texts, filled
from bench.yardsticks import Parts

BENCH = "store"
NAMESPACE = "bench"
TOKENS = 24  # of a stored text: a sentence or two of English words
ALONE = 40  # calls of each part by itself


def measure(memories: int, load: Load) -> None:
    corpus = Corpus(memories)
    texts = Texts()
    contents = (f"{texts.of(TOKENS)} {number}" for number in itertools.count())

    async def keep(client: McpClient) -> None:
        await client.call("store_memory", content=next(contents))

    with private_stack() as stack:
        model_id = filled(stack, corpus, BENCH)
        stack.start_workers()
        port = stack.start_gateway(NAMESPACE)

        def parts() -> dict[str, list[float]]:
            alone = Parts(stack.database_url, NAMESPACE, model_id)
            return asyncio.run(alone.of_store([next(contents) for _ in range(ALONE)]))

        beside_parts(BENCH, memories, load, port, keep, parts)


def main() -> None:
    sizes, load = parse_options(__doc__)
    for memories in sizes:
        measure(memories, load)


if __name__ == "__main__":
    main()
