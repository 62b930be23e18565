"""How long each view of the page takes: `python -m bench.views [--memories N,N] [--rounds R]`.

Prints a JSON line for each view and size: the server's time in milliseconds, beside that of the view that needs no
memory, and how many times it is that at the first size.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import httpx
import psycopg

from bench.common import emit, private_stack
from bench.measured import numbers
from bench.synthetic import Corpus, Texts, filled
from engramq.schemas.vocabulary import Partition
from tools.loading import Loaded

BENCH: Final = "views"
TARGET_MS: Final = 100.0  # p50, at 100,000 memories
PROJECTS: Final = ("shop", "bakery", "atlas", "house", None)
UNTRUSTED: Final = 10  # every so manieth memory
REPLACED: Final = b"update memories set superseded_at = now() where get_byte(uuid_send(node_id), 15) % 10 = 0"
NOTHING: Final = "/ui/missing"
# What one click loads: a page, and the parts that it loads after itself.
VIEWS: Final = (
    *("/ui", "/ui/more", "/ui/live", "/ui/timeline", "/ui/memories", "/ui/facets", "/ui/memories?project=shop"),
    *("/ui/facets?project=shop", "/ui/memories?partition=untrusted", "/ui/memories?superseded=1", "/ui/projects"),
    *("/ui/memories?state=archived", "/ui/timeline?project=shop", "/ui/memories?q={words}", "/ui/memories/{memory}"),
    *("/ui/inbox", "/ui/changes", "/ui/contradictions", "/ui/standing", "/ui/graph", "/ui/graph/data", "/ui/consent"),
    *("/ui/imports", "/ui/audit", "/ui/tokens", "/ui/system", "/ui/counts"),
    # What few memories have, or none: a list that reads all others takes ten times as long.
    *("/ui/memories?state=pending", "/ui/memories?verification=rejected", "/ui/memories?created_by=nobody"),
    *("/ui/memories?source_type=research", "/ui/memories?project=nothing", "/ui/memories?as_of=2024-01-05"),
    *("/ui/memories?since=2024-01-05&until=2024-01-06", "/ui/timeline?since=2024-01-05"),
)


class Mixed(Corpus):
    """The corpus in several projects, a part of it untrusted."""

    def memories(self) -> Iterator[Loaded]:
        for number, memory in enumerate(super().memories()):
            partition = Partition.TRUSTED if number % UNTRUSTED else Partition.UNTRUSTED
            yield replace(memory, partition=partition, project=PROJECTS[number % len(PROJECTS)])


def measure(memories: int, rounds: int) -> dict[str, float]:
    """Print the views of a store with so many memories; return the median of each."""
    with private_stack() as stack:
        filled(stack, Mixed(memories), BENCH)
        with psycopg.connect(stack.owner_url, autocommit=True) as connection:
            connection.execute(REPLACED)
            connection.execute(b"vacuum analyze")
            row = connection.execute(b"select node_id from memories where superseded_at is null limit 1").fetchone()
        stack.start_workers()
        port = stack.start_gateway("bench")
        texts = Texts()
        medians: dict[str, float] = {}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            for view in (NOTHING, *VIEWS):
                taken = []
                for _ in range(rounds + 1):
                    address = view.format(words=texts.of(8).replace(" ", "+"), memory=row and row[0])
                    started = time.perf_counter()
                    answer = client.get(address, follow_redirects=False)
                    taken.append((time.perf_counter() - started) * 1000)
                    if view != NOTHING and answer.status_code != httpx.codes.OK:
                        raise RuntimeError(f"{address}: {answer.status_code}")
                medians[view] = statistics.median(taken[1:])
                emit(
                    BENCH, "view", memories=memories, view=view, p50_ms=medians[view], rounds=rounds,
                    of_nothing=medians[view] / medians[NOTHING], is_met=medians[view] <= TARGET_MS,
                )  # fmt: skip
        return medians


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--memories", type=numbers, default=(3_000, 100_000))
    parser.add_argument("--rounds", type=int, default=11)
    given = parser.parse_args()
    first: dict[str, float] = {}
    for memories in given.memories:
        medians = measure(memories, given.rounds)
        first = first or medians
        for view, taken in medians.items():
            emit(BENCH, "growth", memories=memories, view=view, ratio=taken / first[view])


if __name__ == "__main__":
    main()
