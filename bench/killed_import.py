"""An import that is killed and edited again and again: `python -m bench.killed_import --rows 100000 --kills 5`.

Brings in a file, kills `engramq import` (every other time the worker too) in the middle, edits the file after some of
the kills (rows changed, taken out, put in, moved), and starts again. The last run goes to its end, and another must
find nothing to do. Prints one JSON line: rows of the last file that are not there (`lost`), texts that are there more
than once (`doubled`), texts that no edition of the file had (`unknown`). Exit code 1 if there is one of these.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import psycopg

from bench.common import ENGRAMQ, PrivateStack, emit, private_stack

EDITED: Final = 0.01  # of the rows, each time: changed, taken out, put in, moved
WATCH_S: Final = 0.05
IMPORT_S: Final = 3_600.0
COUNT: Final = "select count(*) from imported_rows"


class File:
    """The file that is brought in, and all that any edition of it said."""

    def __init__(self, path: Path, rows: int, seed: int) -> None:
        self.path = path
        self.random = random.Random(seed)
        self.texts = [f"Crate {number} of the harbour stands in row {number % 97}." for number in range(rows)]
        self.ever = set(self.texts)
        self.edition = 0
        self._write()

    def edit(self) -> None:
        """Change, take out, put in and move a hundredth of the rows each."""
        self.edition += 1
        some = max(1, int(len(self.texts) * EDITED))
        for at in self.random.sample(range(len(self.texts)), some):
            self.texts[at] += f" Looked at again, time {self.edition}."
        for at in sorted(self.random.sample(range(len(self.texts)), some), reverse=True):
            del self.texts[at]
        for number in range(some):
            self.texts.insert(
                self.random.randrange(len(self.texts)), f"Late crate {self.edition}-{number} came by rail."
            )
        for _ in range(some):
            self.texts.insert(self.random.randrange(len(self.texts)), self.texts.pop())
        self.ever.update(self.texts)
        self._write()

    def _write(self) -> None:
        self.path.write_text("".join(json.dumps({"content": text}) + "\n" for text in self.texts), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.killed_import", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--edits", type=int, default=2)
    parser.add_argument("--embedder", default="hash", help="hash: rows go in fast (default); or as ENGRAMQ_EMBEDDER")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with private_stack() as stack, tempfile.TemporaryDirectory() as folder:
        file = File(Path(folder) / "crates.jsonl", asked.rows, asked.seed)
        figures = run(stack, file, kills=asked.kills, edits=asked.edits, embedder=asked.embedder)
    emit("killed_import", "once", load=os.getloadavg()[0], **figures)
    sys.exit(1 if figures["lost"] or figures["doubled"] or figures["unknown"] else 0)


def run(stack: PrivateStack, file: File, *, kills: int, edits: int, embedder: str) -> dict[str, Any]:
    """Kill, edit, and bring in; return what is there at the end."""
    started = time.monotonic()
    stack.start_workers(EMBEDDER=embedder)
    with psycopg.connect(stack.owner_url, autocommit=True) as database:
        for kill in range(kills):
            importing = _importing(stack, file)
            _until(database, len(file.texts) * (kill + 1) // (kills + 1), importing)
            importing.kill()
            importing.wait()
            if kill % 2:
                stack.processes[-1].kill()
                stack.start_workers(EMBEDDER=embedder)
            if (kill + 1) * edits // kills > file.edition:
                file.edit()
        last, again = _finished(stack, file), _finished(stack, file)
        there = Counter(str(content) for (content,) in database.execute("select content from memories"))
    return {
        "rows": len(file.texts), "kills": kills, "edits": file.edition, "memories": there.total(),
        "lost": sum(text not in there for text in file.texts),
        "doubled": sum(count > 1 for count in there.values()),
        "unknown": len(there.keys() - file.ever),
        "last_run": last, "run_again": again, "seconds": time.monotonic() - started,
    }  # fmt: skip


def _importing(stack: PrivateStack, file: File) -> subprocess.Popen[str]:
    command = [ENGRAMQ, "import", str(file.path)]
    return subprocess.Popen(
        command, env=stack.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def _until(database: psycopg.Connection[Any], rows: int, importing: subprocess.Popen[str]) -> None:
    """Wait until so many rows are in; raises when the import has ended or hangs."""
    give_up = time.monotonic() + IMPORT_S
    while database.execute(COUNT).fetchone()[0] < rows:  # type: ignore[index]  # one row, always
        if importing.poll() is not None or time.monotonic() > give_up:
            raise RuntimeError(f"the import ended or hung before {rows} rows were in: {importing.poll()}")
        time.sleep(WATCH_S)


def _finished(stack: PrivateStack, file: File) -> str:
    """Run the import to its end; return what it said last: its counts."""
    importing = _importing(stack, file)
    said, _ = importing.communicate(timeout=IMPORT_S)
    if importing.returncode:
        raise subprocess.CalledProcessError(importing.returncode, "engramq import")
    return said.strip().splitlines()[-1]


if __name__ == "__main__":
    main()
