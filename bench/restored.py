"""Whether a restored home answers as before: `python -m bench.restored --searches 200 --memories 2000`.

Fills a home, saves it while a client goes on storing elsewhere, asks all searches, stops the home, erases it, restores
it, and asks the same searches again. Prints a JSON line: how many were answered the same (ids in the same order), how
many stores that were acknowledged before the backup began are missing (0 is right), and how long each step took.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psycopg

from bench.common import ENGRAMQ, emit
from bench.stack import StdioClient, stdio_client, stop
from bench.synthetic import Corpus
from engramq.deploy.embedded import process
from engramq.deploy.embedded.postgres import OWNER_ROLE, Postgres
from engramq.deploy.home import Home

BUSY: Final = "busy"  # the namespace of the client that goes on storing
ACKNOWLEDGED: Final = 20  # of its stores before the backup begins
SETTLED_S: Final = 600.0
QUERY: Final = slice(2, 7)  # words of a memory
UNFINISHED: Final = "select 1 from memories where links_made_at is null or sector_source is null"


def run(environment: dict[str, str], *arguments: str) -> tuple[dict[str, Any], float]:
    """Run a command of engramq that prints JSON; return that, and the seconds it took."""
    began = time.perf_counter()
    done = subprocess.run([ENGRAMQ, *arguments], env=environment, stdout=subprocess.PIPE, check=True)
    told: dict[str, Any] = json.loads(done.stdout) if "--json" in arguments else {}
    return told, time.perf_counter() - began


def fill(environment: dict[str, str], folder: Path, contents: Sequence[str]) -> None:
    """Load memories, and wait until what follows is done, which searches would see."""
    rows = folder / "rows.jsonl"
    rows.write_text(
        "\n".join(json.dumps({"content": content, "thread": f"t{n % 50}"}) for n, content in enumerate(contents))
    )
    run(environment, "import", str(rows))
    with stdio_client(environment) as client:  # which keeps the stack
        client.initialize()
        url = Postgres(Home(Path(environment["ENGRAMQ_HOME"]))).url(OWNER_ROLE)
        with psycopg.connect(url, autocommit=True) as owner:
            if not process.wait_until(lambda: owner.execute(UNFINISHED.encode()).fetchone() is None, SETTLED_S):
                raise RuntimeError(f"links and sectors are not made within {SETTLED_S} s")


def answers(environment: dict[str, str], queries: Sequence[str]) -> list[list[tuple[str, str, str]]]:
    """Return what each search finds: id, content and time of storing, in order."""
    with stdio_client(environment) as client:
        client.initialize()
        found = [
            client.call(number, "search_memories", query=query, detail="full")["memories"]
            for number, query in enumerate(queries, start=2)
        ]
    return [[(one["id"], one["content"], one["created_at"]) for one in memories] for memories in found]


class Busy:
    """A client that stores one memory after the other in a thread, from `with` to its end."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.acknowledged: list[str] = []
        self._environment = {**environment, "ENGRAMQ_NAMESPACE": BUSY}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._store)

    def __enter__(self) -> "Busy":
        self._thread.start()
        if not process.wait_until(lambda: len(self.acknowledged) >= ACKNOWLEDGED, SETTLED_S):
            raise RuntimeError("the busy client stores nothing")
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _store(self) -> None:
        with stdio_client(self._environment) as client:
            client.initialize()
            while not self._ended.is_set():
                number = len(self.acknowledged)
                body = client.call(number + 2, "store_memory", content=f"Note {number} of the busy client")
                self.acknowledged.append(body["stored"]["id"])


def missing(environment: dict[str, str], ids: Sequence[str]) -> int:
    """Return how many of these memories of the busy client are not there."""
    with stdio_client({**environment, "ENGRAMQ_NAMESPACE": BUSY}) as client:
        client.initialize()
        return sum(not _is_there(client, number, one) for number, one in enumerate(ids, start=2))


def _is_there(client: StdioClient, number: int, memory_id: str) -> bool:
    return bool(client.call(number, "get_memory", memory_id=memory_id)["status"] == "success")


def measure(searches: int, memories: int) -> bool:
    """Print the line; return whether nothing is missing or answered in another way."""
    with tempfile.TemporaryDirectory(prefix="engramq-bench-") as name:
        folder = Path(name)
        environment = {**os.environ, "ENGRAMQ_HOME": str(folder / "home"), "ENGRAMQ_LINGER_S": "600"}
        corpus = Corpus(memories)
        contents = [corpus.text() for _ in range(memories)]
        queries = [" ".join(contents[number * memories // searches].split()[QUERY]) for number in range(searches)]
        try:
            fill(environment, folder, contents)
            with Busy(environment) as busy:
                before = list(busy.acknowledged)
                saved, backup_s = run(environment, "backup", str(folder / "x.backup"), "--json")
                during = len(busy.acknowledged) - len(before)
            expected = answers(environment, queries)
            stop(environment)
            shutil.rmtree(folder / "home")
            _, restore_s = run(environment, "restore", str(folder / "x.backup"), "--json")
            same = sum(one == other for one, other in zip(answers(environment, queries), expected, strict=True))
            lost = missing(environment, before)
        finally:
            stop(environment)
    emit(
        "restored",
        "erased_and_restored",
        searches=searches,
        same=same,
        found=sum(map(len, expected)),
        memories=memories,
        acknowledged_before=len(before),
        missing=lost,
        stored_during_backup=during,
        backup_s=backup_s,
        restore_s=restore_s,
        mb=saved["bytes"] / 2**20,
        file_mb=saved["file_bytes"] / 2**20,
    )
    return same == searches and lost == 0


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--memories", type=int, default=2000)
    chosen = parser.parse_args()
    sys.exit(0 if measure(chosen.searches, chosen.memories) else 1)


if __name__ == "__main__":
    main()
