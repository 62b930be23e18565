"""Questions and the memories that they are asked of: three corpora (their development halves), small sets of our own.

A world is a namespace and what is asked of it. Of questions that its memories answer it knows which; to the others
nothing there is an answer: questions of another conversation, with the names of who speaks here, and of other topics.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from engramq.schemas.limits import CONTENT_CHARS
from engramq.workers.embedders.confidence import PAIRS, bystanders, read_pairs
from tools.relevance import fillers
from tools.relevance.lookups import HELD, UNANSWERED, Lookup, content_words, holders, homes
from tools.relevance.notes import FORMS, KEY, notes
from tools.sectors.corpus import Text, chat_turns, dev_texts

FOLDER: Final = Path(__file__).parent
ROOT: Final = FOLDER.parents[1]
CORPORA: Final = ("locomo", "beam", "realtalk")
FACTS: Final = "facts"
DENSE: Final = "dense"
PROMPTS: Final = "prompts"
LOOKUPS: Final = "lookups"
NOTES: Final = "notes"
FOREIGN: Final = 40  # questions of other conversations for each
STRAY: Final = 20  # questions about nothing that anybody here would know
SIZES: Final = (3, 8, 25, 60, 200, 1_000)  # memories of a set of facts
SETS: Final = 5  # of each size: as many as there are folds
TINY: Final = 8  # memories of a set that is seldom asked for what it does not know: its owner knows what is in it
STRAY_OF_TINY: Final = 6
SMALL: Final = 60  # memories of the largest set that is asked little
ASKED: Final = 8  # facts that are asked for, of each such set
LARGE_AROUND: Final = 60  # memories around a long note, beyond which the other notes stand there too
HOME_SIZES: Final = (10, 40, 300, 1_000, 10_000)  # memories of a home and of what stands around it
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


@cache
def stray_questions() -> tuple[str, ...]:
    """Return questions about topics that no memory of any world knows."""
    return tuple((FOLDER / "stray.txt").read_text(encoding="utf-8").splitlines())


@cache
def prompts(written: str) -> Mapping[str, str]:
    """Return prompts to a coding agent, with the fact that bears on each; "" for none. `written`: "first" or "later".

    Those that were written later are never learned from.
    """
    lines = [line.split("\t") for line in (FOLDER / "prompts.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    return {prompt: fact for when, fact, prompt in lines if when == written}


@cache
def topics_unknown() -> frozenset[str]:
    """Return all questions that are about nothing that is kept."""
    about_nothing = [
        asked.query for home in homes() for asked in home.asked if asked.shape in ("unknown", "unrelated_prompt")
    ]
    unrelated = [prompt for prompt, fact in prompts("first").items() if not fact]
    return frozenset((*stray_questions(), *unrelated, *about_nothing))


def worlds(data: Path) -> list[World]:
    """Return all worlds, always the same ones in the same order."""
    stray = stray_questions()
    found = [world for corpus in CORPORA for world in _conversations(data, corpus, stray)]
    return [*found, *_dense(stray), *_facts(stray), _prompts(), *_lookups(), *_notes(stray)]


def _lookups() -> Iterator[World]:
    """Yield homes of many sizes: what is known of a home has to be found whatever stands around it."""
    around = fillers.texts(HOME_SIZES[-1])
    for home in homes():
        for size in HOME_SIZES:
            chance = random.Random(f"{SEED}/{home.name}/{size}")  # noqa: S311 - the same ones each time
            own = chance.sample(sorted(home.memories.items()), min(size, len(home.memories)))
            rows = [*own, *((str(place), text) for place, text in enumerate(around[: size - len(own)]))]
            yield World(
                name=f"home-{home.name}-{size}", corpus=LOOKUPS, group=home.name,
                memories=[{"external_id": key, "content": text} for key, text in rows],
                asked=[asked for lookup in home.asked if (asked := _asked(lookup, rows)) is not None],
            )  # fmt: skip


def _notes(stray: Sequence[str]) -> Iterator[World]:
    """Yield long notes among other memories: one is asked for what stands in a section, and for what it does not say.

    Among many memories stand the other notes too.
    """
    for note in notes():
        for chars, around in FORMS:
            chance = random.Random(f"{SEED}/{note.name}/{chars}/{around}")  # noqa: S311 - the same ones each time
            others = [other.text(chars) for other in notes() if other is not note and around > LARGE_AROUND]
            rows = {KEY: note.text(chars), **{str(n): text for n, text in enumerate([*others, *fillers.texts(around)])}}
            asked = [Asked(query=query, expects=(KEY,)) for query, _ in note.asked]
            asked += [Asked(query=query) for query in (*note.unknown, *chance.sample(stray, STRAY))]
            yield World(
                name=f"note-{note.name}-{chars}-{around}", corpus=NOTES, group=note.name,
                memories=[{"external_id": key, "content": text} for key, text in rows.items()], asked=asked,
            )  # fmt: skip


def _asked(lookup: Lookup, rows: Sequence[tuple[str, str]]) -> Asked | None:
    """Return a lookup among these memories; None where none answers it, or one holds what should not be known."""
    held = tuple(holders(lookup.query, rows))
    if lookup.shape in UNANSWERED:
        # Among many memories some are about nearly everything: asked is what shares no word with any of them.
        near = held or (
            len(rows) > HOME_SIZES[1] and any(any(holders(word, rows)) for word in content_words(lookup.query))
        )
        return None if near else Asked(query=lookup.query)
    known = dict(rows)
    expects = tuple(dict.fromkeys((*lookup.expects, *(held if lookup.shape in HELD else ()))))
    expects = tuple(key for key in expects if key in known)
    return Asked(query=lookup.query, expects=expects) if expects else None


def _prompts() -> World:
    asked = prompts("first")
    facts = list(dict.fromkeys(fact for fact in asked.values() if fact))
    return World(
        name=PROMPTS, corpus=PROMPTS, group=PROMPTS,
        memories=[{"external_id": str(place), "content": fact} for place, fact in enumerate(facts)],
        asked=[
            Asked(query=prompt, expects=(str(facts.index(fact)),) if fact else ()) for prompt, fact in asked.items()
        ],
    )  # fmt: skip


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
    """Yield sets of facts of many sizes: asked for in other words, by hints, and about what is none of them.

    Of each size as many as there are folds, which ask for a part of the facts each, so that those held out are new.
    """
    pairs = read_pairs(PAIRS)
    said: tuple[Text, ...] = (*dev_texts(), *chat_turns())
    besides = list(dict.fromkeys([*bystanders(), *(text.text for text in said)]))
    for size in SIZES:
        for number in range(SETS):
            chance = random.Random(f"{SEED}/{size}/{number}")  # noqa: S311 - the same ones each time
            own, others = pairs[number::SETS], [pair for place, pair in enumerate(pairs) if place % SETS != number]
            chosen = chance.sample(own, min(ASKED if size <= SMALL else len(own), size))
            texts = [pair.memory for pair in chosen]
            texts += chance.sample(besides, min(size - len(texts), len(besides)))
            chance.shuffle(texts)
            key = {text: str(place) for place, text in enumerate(texts)}
            asked = [
                Asked(query=query, expects=(key[pair.memory],))
                for pair in chosen
                for query in (pair.hint, pair.paraphrase)
                if query is not None
            ]
            asked += [Asked(query=pair.hint) for pair in chance.sample(others, ASKED)]
            count = STRAY_OF_TINY if size <= TINY else STRAY if size <= SMALL else len(stray)
            asked += [Asked(query=query) for query in chance.sample(stray, count)]
            yield World(
                name=f"facts-{size}-{number}", corpus=FACTS, group=f"facts-{number}",
                memories=[{"external_id": key[text], "content": text} for text in texts], asked=asked,
            )  # fmt: skip
