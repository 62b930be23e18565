"""The generated section of docs/recall.md: what the JSON lines of `bench.recall` say, and where we lose. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bench.page import Generated
from bench.retrieval import ADVERSARIAL

SECTION: Final = Generated("bench.recall")
OURS: Final = "relevance"
WAYS: Final[Mapping[str, str]] = {
    OURS: "**engramq**",
    "z_fusion": "BM25 and vectors, z-scores added",
    "bm25": "BM25",
    "vector": "vectors",
}
SHOWN: Final = ("R@5", "R@10", "MRR")
CORPORA: Final[Mapping[str, str]] = {"locomo": "LoCoMo", "beam": "BEAM"}
# What LoCoMo's numbers of categories mean.
CATEGORIES: Final[Mapping[str, str]] = {
    "1": "multi-hop", "2": "temporal", "3": "inference", "4": "single-hop", str(ADVERSARIAL): "adversarial",
}  # fmt: skip

Line = Mapping[str, Any]
Run = tuple[str, tuple[str, ...]]  # a corpus, and what was withheld


def section(lines: Sequence[Line]) -> str:
    """Return the section, markers included, from the lines of `bench.recall`; later lines replace earlier ones."""
    runs = list(dict.fromkeys(_run(line) for line in lines))
    parts = [_overall(run, [line for line in lines if _run(line) == run]) for run in runs]
    return "\n\n".join([SECTION.begin, *parts, _by_category(lines), SECTION.end])


def _run(line: Line) -> Run:
    return line["corpus"], tuple(line["withheld"])


def _overall(run: Run, lines: Sequence[Line]) -> str:
    """Return the figures of every way of ranking in one run, and how far ours is ahead of each."""
    means = {line["ranking"]: line for line in lines if line["measure"] == "overall"}
    ahead = {line["of"]: line for line in lines if line["measure"] == "ahead"}
    rows = []
    for way, name in WAYS.items():
        if way in means:
            lead = ahead.get(way)
            told = f"{_signed(lead['R@10'])} [{_signed(lead['low'])}, {_signed(lead['high'])}]" if lead else ""
            rows.append([name, *(_figure(means[way][figure]) for figure in SHOWN), told])
    corpus, withheld = run
    heading = f"### {CORPORA.get(corpus, corpus)}, " + (f"without {_listed(withheld)}" if withheld else "as it is")
    said = f"{means[OURS]['n']} questions; {' and '.join(_told_when(lines))}."
    return "\n\n".join([heading, said, _table(["", *SHOWN, "engramq ahead at 10"], rows)])


def _by_category(lines: Sequence[Line]) -> str:
    """Return R@10 by category with all fields, and by how much ours is ahead of the best of the others, worst first."""
    found: dict[tuple[str, str], dict[str, Line]] = {}
    for line in lines:
        if line["measure"].startswith("category ") and not line["withheld"] and line["ranking"] in WAYS:
            found.setdefault((line["corpus"], line["measure"].removeprefix("category ")), {})[line["ranking"]] = line
    rows = []
    for (corpus, category), ways in sorted(found.items(), key=lambda one: one[1][OURS]["R@10"]):
        best = max((way for way in ways if way != OURS), key=lambda way: float(ways[way]["R@10"]))
        ours, theirs = float(ways[OURS]["R@10"]), float(ways[best]["R@10"])
        lead = f"**{_signed(ours - theirs)}**" if ours < theirs else _signed(ours - theirs)
        kind = CATEGORIES.get(category, category.replace("_", " "))
        name = f"{CORPORA.get(corpus, corpus)}: {kind}"
        rows.append([name, str(ways[OURS]["n"]), _figure(ours), f"{_figure(theirs)} ({WAYS[best]})", lead])
    heading = "### By kind of question, the worst first (R@10, as it is; bold: behind)"
    return heading + "\n\n" + _table(["kind", "questions", "engramq", "best of the others", "ahead"], rows)


def _told_when(lines: Iterable[Line]) -> list[str]:
    """Return when these were measured and under which load, each once."""
    return list(dict.fromkeys(f"{line['on']}, load {line['load_1m']:g} on {line['cpus']} cores" for line in lines))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *rows])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _figure(value: float) -> str:
    return f"{value:.3f}"


def _signed(value: float) -> str:
    return f"{value:+.3f}"
