"""What is asked of what: three corpora (their development halves), and small sets of our own.

A world is a namespace and what is asked of it. Of questions that its memories answer it knows which; to the others
nothing there is an answer: questions of another conversation, with the names of who speaks here, and of other topics.
"""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from engramq.schemas.limits import CONTENT_CHARS
from engramq.workers.embedders.confidence import PAIRS, bystanders, read_pairs

FOLDER: Final = Path(__file__).parent
ROOT: Final = FOLDER.parents[1]
CORPORA: Final = ("locomo", "beam", "realtalk")
FACTS: Final = "facts"
DENSE: Final = "dense"
FOREIGN: Final = 40  # questions of other conversations for each
STRAY: Final = 20  # questions about nothing that anybody here would know
SMALL: Final = (3, 8, 25, 60)  # memories of a set of facts; the whole set besides
SETS: Final = 4  # of each size
ASKED: Final = 8  # facts that are asked for, of each small set
SEED: Final = 29

Row = dict[str, Any]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question, by which memories it is answered (their external ids), and where it looks."""

    query: str
    expects: tuple[str, ...] = ()
    project: str | None = None
    tags: tuple[str, ...] | None = None


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Memories and questions; `group` is what is held out together."""

    name: str
    corpus: str
    group: str
    memories: list[Row]
    asked: list[Asked]


def lines_of(path: Path) -> list[Row]:
    """Return the objects of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def worlds(data: Path) -> list[World]:
    """Return all worlds, always the same ones in the same order."""
    stray = (FOLDER / "stray.txt").read_text(encoding="utf-8").splitlines()
    found = [world for corpus in CORPORA for world in _conversations(data, corpus, stray)]
    return [*found, *_dense(stray), *_facts(stray)]


def _conversations(data: Path, corpus: str, stray: Sequence[str]) -> Iterator[World]:
    memories, queries = (lines_of(data / f"{corpus}.dev.{what}.jsonl") for what in ("memories", "queries"))
    names = list(dict.fromkeys(row["namespace"] for row in memories))
    speakers = {
        name: list(dict.fromkeys(row["speaker"] for row in memories if row["namespace"] == name)) for name in names
    }
    for name in names:
        chance = random.Random(f"{SEED}/{name}")  # noqa: S311 - the same ones each time
        own = [Asked(query=row["query"], expects=tuple(row["evidence"])) for row in queries if row["namespace"] == name]
        others = [row for row in queries if row["namespace"] != name]
        foreign = [
            Asked(query=_renamed(row["query"], speakers[row["namespace"]], speakers[name]))
            for row in chance.sample(others, FOREIGN)
        ]
        rows = [{**row, "content": row["content"][:CONTENT_CHARS]} for row in memories if row["namespace"] == name]
        yield World(
            name=name, corpus=corpus, group=name, memories=rows,
            asked=[*own, *foreign, *(Asked(query=query) for query in chance.sample(stray, STRAY))],
        )  # fmt: skip


def _renamed(query: str, theirs: Sequence[str], ours: Sequence[str]) -> str:
    """Return a question about others as if it were about who speaks here."""
    for before, after in zip(theirs, ours, strict=False):
        query = query.replace(before, after).replace(before.partition(" ")[0], after.partition(" ")[0])
    return query


def _dense(stray: Sequence[str]) -> Iterator[World]:
    """Yield the half of the benchmark's facts that may be seen, and own ones, each with all else around them."""
    shown = [row for row in lines_of(ROOT / "bench" / "dense.jsonl") if row["half"] == "shown"]
    own = lines_of(FOLDER / "dense.jsonl")
    every = [*shown, *own]
    gone = {row["replaces"] for row in every if "replaces" in row}
    facts = [
        {"external_id": row["key"], **{name: row[name] for name in ("content", "project", "tags") if name in row}}
        for row in every
        if "key" in row and row["key"] not in gone
    ]
    projects = list(dict.fromkeys(row["project"] for row in every if row.get("project", "*") != "*"))
    for project in projects:
        chance = random.Random(f"{SEED}/{project}")  # noqa: S311 - the same
        asked = [
            Asked(
                query=row["query"], expects=tuple(row["expects"]), project=row["project"],
                tags=tuple(row["tags"]) if "tags" in row else None,
            )
            for row in every
            if "query" in row and (row["project"] == project or (row["project"] == "*" and project == projects[0]))
        ]  # fmt: skip
        asked += [Asked(query=query, project=project) for query in chance.sample(stray, STRAY)]
        yield World(name=f"dense-{project}", corpus=DENSE, group=f"dense-{project}", memories=facts, asked=asked)


def _facts(stray: Sequence[str]) -> Iterator[World]:
    """Yield sets of facts of many sizes: asked for in other words, by hints, and about what is none of them."""
    pairs, besides = read_pairs(PAIRS), bystanders()
    chance = random.Random(SEED)  # noqa: S311 - the same
    sizes = [(size, number) for size in SMALL for number in range(SETS)]
    for size, number in [*sizes, (len(pairs) + len(besides), 0)]:
        chosen = pairs if size > len(pairs) else chance.sample(pairs, min(ASKED, size))
        others = [pair for pair in pairs if pair not in chosen]
        texts = [pair.memory for pair in chosen]
        more = [*besides, *(pair.memory for pair in others)]
        texts += chance.sample(more, min(size - len(texts), len(more)))
        chance.shuffle(texts)
        key = {text: str(place) for place, text in enumerate(texts)}
        asked = [
            Asked(query=query, expects=(key[pair.memory],))
            for pair in chosen
            for query in (pair.hint, pair.paraphrase)
            if query is not None
        ]
        absent = [pair for pair in others if pair.memory not in key]
        asked += [Asked(query=pair.hint) for pair in chance.sample(absent, min(ASKED, len(absent)))]
        asked += [Asked(query=query) for query in chance.sample(stray, STRAY if size < len(pairs) else len(stray))]
        yield World(
            name=f"facts-{size}-{number}", corpus=FACTS, group=f"facts-{size}-{number}",
            memories=[{"external_id": key[text], "content": text} for text in texts], asked=asked,
        )  # fmt: skip
