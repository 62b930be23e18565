"""The gate for changes of ranking: every corpus, with and without metadata, beside the single arms of the same run.

    python -m bench.recall --corpus locomo MEMORIES.jsonl QUERIES.jsonl --corpus beam MEMORIES.jsonl QUERIES.jsonl
                           --corpus realtalk MEMORIES.jsonl QUERIES.jsonl
                           [--before FILE] [--save FILE] [--write] [--from FILE ...]

Files as `bench.retrieval` has them. Each corpus is imported into a private stack and asked through the MCP gateway,
once as it is, once without thread, speaker and date. Beside the product's two rankings: BM25, the vectors, and both
normalised and added, over the same rows. Prints JSON lines: recall at 5 and 10 and MRR, overall (adversarial questions
left out) and by category, and the difference at 10 to each arm with the interval that holds 95 % of 4,000 paired
resamplings of the questions. --save keeps the figures of each question; --before compares with such a file, and says
whether a change of ranking stays (PR-8): it helps in one run beyond chance, that is its whole interval lies above
nothing, and harms in none. Kept-aside data is judged the same way, by other files.
--write puts what was measured into docs: the section of recall.md and the lines themselves, recall.jsonl. With --from
nothing is measured: lines that were printed before, of several runs if need be, are shown as a section, or written.
"""

import argparse
import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg

from bench.common import PrivateStack, emit, private_stack
from bench.page import Generated, Line, read_printed, table
from bench.retrieval import (
    ADVERSARIAL,
    Arms,
    Row,
    ask,
    bring_in,
    by_namespace,
    drop_fields,
    read_lines,
    score,
    vectors_of,
    wait_for_vectors,
    words_of,
)
from engramq.schemas.vocabulary import Ranking

SECTION: Final = Generated("bench.recall")
OURS: Final = Ranking.RELEVANCE
WAYS: Final[Mapping[str, str]] = {
    OURS: "**engramq**",
    "z_fusion": "BM25 and vectors, z-scores added",
    "bm25": "BM25",
    "vector": "vectors",
}
SHOWN: Final = ("R@5", "R@10", "MRR")
CORPORA: Final[Mapping[str, str]] = {"locomo": "LoCoMo", "beam": "BEAM", "realtalk": "REALTALK"}
# What the numbers of categories mean.
CATEGORIES: Final[Mapping[str, Mapping[str, str]]] = {
    "locomo": {
        "1": "multi-hop", "2": "temporal", "3": "inference", "4": "single-hop", str(ADVERSARIAL): "adversarial",
    },
    "realtalk": {"1": "several hops", "2": "dated", "3": "common sense"},
}  # fmt: skip

Run = tuple[str, tuple[str, ...]]  # a corpus, and what was withheld


def section(lines: Sequence[Line]) -> str:
    """Return the section, markers included, from the lines of `bench.recall`; later lines replace earlier ones."""
    runs = list(dict.fromkeys(_run(line) for line in lines))
    rows = [_overall(run, [line for line in lines if _run(line) == run]) for run in runs]
    said = f"{', '.join(SHOWN)}, and how far engramq is ahead at 10. {'; '.join(_told_when(lines))}."
    shown = table(["", "questions", *WAYS.values()], rows)
    return "\n\n".join([SECTION.begin, said, shown, _by_category(lines), SECTION.end])


def _run(line: Line) -> Run:
    return line["corpus"], tuple(line["withheld"])


def _overall(run: Run, lines: Sequence[Line]) -> list[str]:
    """Return the row of one run: the figures of every way of ranking, and how far ours is ahead of each."""
    means = {line["ranking"]: line for line in lines if line["measure"] == "overall"}
    ahead = {line["of"]: line for line in lines if line["measure"] == "ahead"}
    cells = []
    for way in WAYS:
        lead = ahead.get(way)
        told = f"; {_signed(lead['R@10'])} [{_signed(lead['low'])}, {_signed(lead['high'])}]" if lead else ""
        figures = ", ".join(_figure(means[way][figure]) for figure in SHOWN) if way in means else ""
        cells.append(figures + told)
    corpus, withheld = run
    name = f"{CORPORA.get(corpus, corpus)}, " + (f"without {_listed(withheld)}" if withheld else "as it is")
    return [name, str(means[OURS]["n"]), *cells]


def _by_category(lines: Sequence[Line]) -> str:
    """Return R@10 by category with all fields, and by how much ours is ahead of the best of the others, worst first."""
    found: dict[tuple[str, str], dict[str, Line]] = {}
    for line in lines:
        if line["measure"].startswith("category ") and not line["withheld"] and line["ranking"] in WAYS:
            found.setdefault((line["corpus"], line["measure"].removeprefix("category ")), {})[line["ranking"]] = line
    rows: dict[str, list[str]] = {}
    for (corpus, category), ways in sorted(found.items(), key=lambda item: item[1][OURS]["R@10"]):
        best = max((way for way in ways if way != OURS), key=lambda way: float(ways[way]["R@10"]))
        ours, theirs = float(ways[OURS]["R@10"]), float(ways[best]["R@10"])
        lead = f"**{_signed(ours - theirs)}**" if ours < theirs else _signed(ours - theirs)
        kind = CATEGORIES.get(corpus, {}).get(category, category.replace("_", " "))
        rows.setdefault(CORPORA.get(corpus, corpus), []).append(
            f"{kind.capitalize()} ({ways[OURS]['n']}): {_figure(ours)}, {lead}."
        )
    heading = "### By kind of question, the worst first"
    said = "R@10, as it is, of so many questions, and how far that is ahead of the best of the others; bold: behind."
    return f"{heading}\n\n{said}\n\n" + table(["", "kinds"], ([name, " ".join(told)] for name, told in rows.items()))


def _told_when(lines: Iterable[Line]) -> list[str]:
    """Return when these were measured and on how many cores, each once, with the least and the greatest load."""
    loads: dict[str, list[float]] = {}
    for line in lines:
        loads.setdefault(f"{line['on']} on {line['cpus']} cores", []).append(line["load_1m"])
    return [f"{when}, load {min(found):g} to {max(found):g}" for when, found in loads.items()]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _figure(value: float) -> str:
    return f"{value:.3f}"


def _signed(value: float) -> str:
    return f"{value:+.3f}"


BENCH: Final = "recall"
METADATA: Final = frozenset({"thread", "speaker", "occurred_at"})
RESAMPLINGS: Final = 4_000
DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PAGE: Final = DOCS / "recall.md"
LINES: Final = DOCS / "recall.jsonl"

Figures = Mapping[str, Mapping[str, float]]  # by question, then by measure


def rank(stack: PrivateStack, memories: list[Row], queries: list[Row]) -> dict[str, dict[str, list[str]]]:
    """Import and ask; return what each way of ranking found, by question."""
    ports = {namespace: stack.start_gateway(namespace) for namespace in by_namespace(queries)}
    bring_in(memories, stack.variables)
    with psycopg.connect(stack.owner_url) as owner:
        wait_for_vectors(owner)
    found: dict[str, dict[str, list[str]]] = {ranking: {} for ranking in Ranking}
    for namespace, several in by_namespace(queries).items():
        url = f"http://127.0.0.1:{ports[namespace]}/mcp"
        for ranking in Ranking:
            found[ranking] |= asyncio.run(ask(url, several, ranking=ranking))
        with psycopg.connect(stack.owner_url) as owner:
            arms = Arms.read(owner, namespace)
            vectors = asyncio.run(vectors_of([line["query"] for line in several]))
            for query, vector in zip(several, vectors, strict=True):
                for name, ranked in arms.rankings(words_of(owner, query["query"]), vector).items():
                    found.setdefault(name, {})[query["qid"]] = ranked
    return found


def interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of paired differences, and what holds 95 % of the means of their resamplings."""
    values, chance = np.array(differences), np.random.default_rng(0)
    means = values[chance.integers(0, len(values), (RESAMPLINGS, len(values)))].mean(axis=1)
    return float(values.mean()), float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def compared(ours: Figures, others: Figures, qids: Sequence[str]) -> dict[str, Any]:
    """Return by how much we are better at 10."""
    mean, low, high = interval([ours[qid]["R@10"] - others[qid]["R@10"] for qid in qids])
    return {"R@10": mean, "low": low, "high": high}


def verdict(intervals: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """Return in which runs a change helps and harms beyond chance, by the bounds of each, and whether it stays."""
    helps = [run for run, (low, _) in intervals.items() if low > 0]
    harms = [run for run, (_, high) in intervals.items() if high < 0]
    return {"helps": helps, "harms": harms, "stays": bool(helps) and not harms}


def show(what: dict[str, Any], queries: list[Row], figures: Mapping[str, Figures]) -> list[Line]:
    """Print the figures of every way of ranking, and how far ours is ahead; return the lines."""
    core = [query["qid"] for query in queries if query["category"] != ADVERSARIAL]
    groups = {"overall": core}
    for query in queries:
        groups.setdefault(f"category {query['category']}", []).append(query["qid"])
    lines: list[Line] = []
    for way, by_question in figures.items():
        for group, qids in groups.items():
            means: dict[str, Any] = {name: float(np.mean([by_question[qid][name] for qid in qids])) for name in SHOWN}
            lines.append(emit(BENCH, group, **what, ranking=way, n=len(qids), **means))
        if way != OURS:
            ahead = compared(figures[OURS], by_question, core)
            lines.append(emit(BENCH, "ahead", **what, of=way, n=len(core), **ahead))
    return lines


def measure(corpora: Sequence[Sequence[str]], before: Mapping[str, Figures], saved: dict[str, Figures]) -> list[Line]:
    """Measure each corpus (name, memories, queries), as it is and without metadata; return the lines of the page.

    The figures of each question go into `saved`, and are compared with those of `before`.
    """
    lines: list[Line] = []
    intervals: dict[str, tuple[float, float]] = {}
    for name, memories_path, queries_path in corpora:
        memories, queries = read_lines(Path(memories_path)), read_lines(Path(queries_path))
        evidence = {query["qid"]: set(query["evidence"]) for query in queries}
        for withheld in (frozenset[str](), METADATA):
            with private_stack() as stack:
                stack.start_workers()
                found = rank(stack, drop_fields(memories, withheld), queries)
            figures = {
                way: {qid: score(ranking, evidence[qid]) for qid, ranking in several.items()}
                for way, several in found.items()
            }
            what: dict[str, Any] = {
                "corpus": name,
                "withheld": sorted(withheld),
                "on": datetime.now(UTC).date().isoformat(),
            }
            lines += show(what, queries, figures)
            saved[key := f"{name} {sorted(withheld)}"] = figures[OURS]
            if key in before:
                core = [query["qid"] for query in queries if query["category"] != ADVERSARIAL]
                ahead = compared(figures[OURS], before[key], core)
                emit(BENCH, "ahead", **what, of="before", n=len(core), **ahead)
                intervals[key] = ahead["low"], ahead["high"]
    if intervals:
        emit(BENCH, "verdict", of="before", **verdict(intervals))
    return lines


def read(files: Sequence[Path]) -> list[Line]:
    """Return the lines of these files that make the page, in their order."""
    return [line for line in read_printed(files, BENCH) if line.get("of") != "before"]


def write(lines: Sequence[Line]) -> None:
    """Write page and lines."""
    LINES.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    SECTION.write(PAGE, section(lines))


def main() -> None:
    """Measure, or show what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs=3, action="append", default=[], metavar=("NAME", "MEMORIES", "QUERIES"))
    parser.add_argument("--before", type=Path)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--write", action="store_true", help="into docs")
    parser.add_argument("--from", dest="files", type=Path, nargs="+", metavar="FILE", default=[])
    chosen = parser.parse_args()
    if bool(chosen.corpus) == bool(chosen.files):
        parser.error("give either --corpus or --from")
    saved: dict[str, Figures] = {}
    if chosen.files:
        lines = read(chosen.files)
    else:
        lines = measure(chosen.corpus, json.loads(chosen.before.read_text()) if chosen.before else {}, saved)
    if chosen.save:
        chosen.save.write_text(json.dumps(saved))
    if chosen.write:
        write(lines)
    elif chosen.files:
        print(section(lines))


if __name__ == "__main__":
    main()
