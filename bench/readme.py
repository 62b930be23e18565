"""The table of the README: figures of the other pages, each with what it is to be compared with.

    python -m bench.readme            # print it
    python -m bench.readme --write    # put it into README.md

Nothing is measured here: docs/faults.md, docs/recall.md and docs/benchmarks.jsonl hold what `tests.faults`,
`bench.recall` and `bench.all` printed, docs/benchmarks.md what a bare library took beside engramq.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.all import read
from bench.page import TARGETS, Generated, Line, ratios_of

ROOT: Final = Path(__file__).resolve().parents[1]
README: Final = ROOT / "README.md"
DOCS: Final = ROOT / "docs"
LABBOOK: Final = ROOT / "bench" / "LABBOOK.md"
SECTION: Final = Generated("bench.readme")
_FAULT: Final = re.compile(r"^\| `\w+` \| (\d+), (\d+) \| (\d+) \| (\d+), (\d+), (\d+) \|", re.MULTILINE)
_ROUND: Final = re.compile(r"caused (\d+) more kinds some (\d+) times: ([\d,]+) acknowledged writes")
_HUNDREDS: Final = -2  # to which the round without a table is counted, and so the sum
_APART: Final = re.compile(r"^\| LoCoMo, five conversations \| (\d+) \| \.\d+ \| (\.\d+) \|", re.MULTILINE)
_RUN: Final = re.compile(
    r"^\| LoCoMo, as it is \| \d+ \| [\d.]+, ([\d.]+), [\d.]+ \| [\d.]+, ([\d.]+), [\d.]+;", re.MULTILINE
)
_LIBRARY: Final = re.compile(
    r"^\| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \|$", re.MULTILINE
)
_ANSWERS: Final = re.compile(
    r"found (\.\d+) of the answers with engramq right, and (\.\d+) with a bare .*? (\.\d+) of the text"
)
# What a missed target of bench.all means to somebody who chooses.
_MEANING: Final = {
    "store_p50": "a store also writes words, links, receipt and audit",
    "import_rate": "the rest of the time goes into words, links and indexes",
    "search_p50": "the rest is queue, ranking and relevance",
}


@dataclass(frozen=True, slots=True)
class Faults:
    """The sums of docs/faults.md: kinds of fault, how often they were caused, writes, lost ones."""

    kinds: int
    times: int
    writes: int
    lost: int


@dataclass(frozen=True, slots=True)
class RecallAt:
    """R@10 on LoCoMo: on the half that nothing was chosen on, and beside BM25 with vectors on the other half."""

    questions: int
    kept_apart: float
    ours: float
    plain: float


def faults() -> Faults:
    """Return the sums of the lab book's table and of the page's rounds without one.

    Lost ones include doubled ones and those applied though refused.
    """
    page = (DOCS / "faults.md").read_text(encoding="utf-8")
    rows = [[int(cell) for cell in row] for row in _FAULT.findall(LABBOOK.read_text(encoding="utf-8"))]
    rounds = [[int(cell.replace(",", "")) for cell in found] for found in _ROUND.findall(" ".join(page.split()))]
    return Faults(
        kinds=len(rows) + sum(kinds for kinds, _, _ in rounds),
        times=sum(row[2] for row in rows) + sum(times for _, times, _ in rounds),
        writes=round(sum(row[0] + row[1] for row in rows) + sum(writes for _, _, writes in rounds), _HUNDREDS),
        lost=sum(sum(row[3:]) for row in rows),
    )


def recall_at() -> RecallAt:
    """Return the figures of docs/recall.md."""
    page = (DOCS / "recall.md").read_text(encoding="utf-8")
    apart, run = _APART.search(page), _RUN.search(page)
    assert apart is not None
    assert run is not None
    return RecallAt(int(apart[1]), float(apart[2]), float(run[1]), float(run[2]))


def section() -> str:
    """Return the table, remarks included."""
    lines = read([DOCS / "benchmarks.jsonl"])
    rows = [_of_faults(faults()), _of_recall_at(recall_at()), _of_answers(), _of_library(), *_of_speed(lines)]
    table = ["| what | measured | compared with |", "|---|---|---|", *rows]
    return "\n".join([SECTION.begin, *table, SECTION.end])


def _of_faults(sums: Faults) -> str:
    measured = f"{sums.writes:,} acknowledged writes: {sums.lost} lost, doubled, or applied though refused"
    return f"| [faults](docs/faults.md) | {measured} | {sums.kinds} kinds of fault, caused {sums.times:,} times |"


def _of_recall_at(found: RecallAt) -> str:
    measured = f"R@10 {found.kept_apart:.2f} of single turns, LoCoMo, {found.questions} questions kept apart"
    compared = (
        f"{found.ours / found.plain:.2f} times BM25 + vectors ({found.ours:.2f} to {found.plain:.2f}, other half)"
    )
    return f"| [found, no LLM](docs/recall.md) | {measured} | {compared} |"


def _of_answers() -> str:
    page = (DOCS / "recall.md").read_text(encoding="utf-8")
    found = _ANSWERS.search(" ".join(page.split()))
    assert found is not None
    measured = f"{found[1]} of an agent's answers right, judged blindly"
    compared = f"{found[2]} with a bare vector library; {found[3]} of its text was read"
    return f"| [answers](docs/recall.md#answers) | {measured} | {compared} |"


def _of_library() -> str:
    """Return the row of a bare library, at the most memories that were measured."""
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8").partition("## Beside a bare library")[2]
    memories, store, stores, search, searches = _LIBRARY.findall(page)[-1]
    measured = (
        f"a store {store}, a search {search} times as long ({memories} memories; 8 callers: {stores}, {searches})"
    )
    compared = "the mem0 library without an LLM: one insert, one scan, no queue, receipt, words or links"
    return f"| [a bare library](docs/benchmarks.md#beside-a-bare-library) | {measured} | {compared} |"


def _of_speed(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the rows of one caller, at the most memories that were measured, and of an import."""
    most = max(line["memories"] for line in lines)
    ratios = ratios_of(lines)
    for tool in ("search", "store"):
        called = _last(lines, measure="calls", memories=most, tool=tool, callers=1)
        measured = f"{called['p50_ms']:.0f} ms (p50, one caller, {most:,} memories)"
        yield f"| [{tool}](docs/benchmarks.md) | {measured} | {_compared(f'{tool}_p50', ratios[f'{tool}_p50', most])} |"
    imported = _last(lines, measure="ratio", row="import_rate")
    measured = f"{imported['rows_per_s']:.0f} rows/s ({imported['rows']:,} rows)"
    yield f"| [import](docs/benchmarks.md) | {measured} | {_compared('import_rate', imported['ratio'])} |"


def _last(lines: Sequence[Line], **wanted: object) -> Line:
    return next(line for line in reversed(lines) if wanted.items() <= line.items())


def _compared(row: str, ratio: float) -> str:
    target = TARGETS[row]
    bound = f"at {'least' if target.at_least else 'most'} {target.bound:g}"
    base = target.text.partition(" / ")[2]
    verdict = "met" if target.is_met(ratio) else f"**missed**: {_MEANING[row]}"
    return f"{ratio:.2f} times {base}; target {bound}: {verdict}"


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="into README.md")
    if parser.parse_args().write:
        SECTION.write(README, section())
    else:
        print(section())


if __name__ == "__main__":
    main()
