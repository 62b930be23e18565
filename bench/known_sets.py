"""Further sets of `bench.known`: times, spellings, pastes, lists, contradictions and long notes (KN-6 to KN-10, KN-12).

known_sets.jsonl has what is stored and what is asked, by `set`; days and spellings are filled in here. Each set is
asked in a namespace of its own, among other memories, and prints JSON lines with `n`, the number of queries, and
`right`, a share:

times: a diary is asked as people speak of days, counted from today: the first hit is of a day that is meant.
spellings: dates and numbers are asked for as they are stored, and in each other spelling: the first hit is right.
pastes: a question stands before or after a trace, diff, mail or log of 1 to 30 KB: the first hit is right.
lists: 14 memories name a thing: `more` tells of all that are not shown.
templates: 300 notes of eight templates contradict nothing, 20 pairs beside them do: the precision of what is listed.
handbook: long notes, as they are and padded: the reply holds the answer.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from statistics import mean
from typing import Any, Final

import psycopg

from bench.common import McpClient, PrivateStack, emit
from bench.known_texts import LONG, SPELLINGS, handbook, meant, notes, paste, spelled, spelled_with_days
from bench.retrieval import bring_in, read_lines, wait_for_vectors
from tools.relevance import fillers

BENCH: Final = "known"
SET: Final = Path(__file__).with_suffix(".jsonl")
AROUND: Final = 60  # memories that stand around a set
LISTED: Final = 100  # around a list
OLDEST_DAYS: Final = 500  # what stands around a diary is at least so old
SIZES: Final = (1_000, 2_000, 8_000, 30_000)  # characters of a paste
PLAIN: Final = frozenset({"bench", "measure", "set", "n", "right", "cpus", "machine", "load_1m", "listed", "chars"})
_IDS: Final = (
    "select n.id::text, n.external_id from nodes n where n.tenant = tenant_of(%s) and n.external_id is not null"
)

Row = dict[str, Any]
Reply = dict[str, Any]


class Asked:
    """A namespace with memories in it, and a way to ask it."""

    def __init__(self, stack: PrivateStack, name: str, rows: Iterable[Row], around: int = AROUND) -> None:
        """Import the rows and so many others; `rows` have keys and contents, perhaps days."""
        self.name, self._stack, self.port = name, stack, stack.start_gateway(name)
        self.others = [{"key": f"filler/{n}", "content": text} for n, text in enumerate(fillers.texts(around))]
        told = [_stored(name, row) for row in (*rows, *self.others)]
        bring_in(told, stack.variables)
        with psycopg.connect(stack.owner_url) as owner:
            wait_for_vectors(owner)

    def replies(self, queries: Iterable[Row], tool: str = "search_memories") -> list[Reply]:
        """Return the reply to each call."""

        async def all_of() -> list[Reply]:
            async with McpClient.connect(self.port) as client:
                return [await client.call(tool, **query) for query in queries]

        return asyncio.run(all_of())

    def keys(self) -> dict[str, str]:
        """Return the keys of the memories by their ids."""
        with psycopg.connect(self._stack.owner_url) as owner:
            return dict(owner.execute(_IDS, (self.name,)).fetchall())


def _stored(namespace: str, row: Row) -> Row:
    fields = {"namespace": namespace, "external_id": row["key"], "content": row["content"]}
    return fields | ({"occurred_at": row["occurred_at"]} if "occurred_at" in row else {})


def keys_of(reply: Reply) -> list[str]:
    """Return the keys of the hits."""
    return [hit["external_id"] for hit in reply["memories"]]


def told(pairs: Sequence[tuple[Reply, Sequence[str]]]) -> Row:
    """Return how many there are, and the shares whose first hit is right, that show a right one, and that deny it."""
    hits = [(keys_of(reply), {*expects}) for reply, expects in pairs]
    return {
        "n": len(pairs),
        "right": mean(bool(keys) and keys[0] in expects for keys, expects in hits),
        "shown": mean(not expects.isdisjoint(keys) for keys, expects in hits),
        "no": mean(reply["answered"] == "no" for reply, _ in pairs),
    }


def times(stack: PrivateStack, rows: Sequence[Row], today: date) -> Iterator[tuple[str, Row]]:
    """Ask a diary for its days."""
    stored = [{**row, "content": spelled_with_days(row["content"], today)} for row in rows if "key" in row]
    stored = [{**row, **({"occurred_at": noon(today, row["day"])} if "day" in row else {})} for row in stored]
    asked = Asked(stack, "times", stored, around=0)
    old = [
        {"key": f"filler/{n}", "content": text, "occurred_at": noon(today, -OLDEST_DAYS - 7 * n)}
        for n, text in enumerate(fillers.texts(AROUND))
    ]
    bring_in([_stored("times", row) for row in old], stack.variables)
    with psycopg.connect(stack.owner_url) as owner:
        wait_for_vectors(owner)
    queries, expects = [], []
    for row in (row for row in rows if "query" in row):
        within = [(today + timedelta(day)).isoformat() for day in row.get("within", ())]
        limits = dict(zip(("since", "until"), within, strict=False))
        queries.append({"query": spelled_with_days(row["query"], today), **limits})
        expects.append(meant(row, rows, today))
    pairs = list(zip(asked.replies(queries), expects, strict=True))
    yield "diary", told(pairs)


def noon(today: date, day: int) -> str:
    """Return the middle of a day, counted from today."""
    return datetime.combine(today + timedelta(day), time(12)).isoformat() + "Z"


def spellings(stack: PrivateStack, rows: Sequence[Row], _: date) -> Iterator[tuple[str, Row]]:
    """Ask for dates and numbers in the spelling that is stored, and in the others."""
    stored, queries = [], []
    for place, row in enumerate(rows):
        kind = "date" if "date" in row else "number"
        forms = SPELLINGS[kind]
        own = place % len(forms)
        stored.append({**row, "content": row["content"].format(spelled(row[kind], forms[own]))})
        said = "What happened on {}?" if kind == "date" else "What is {}?"
        for number, form in enumerate(forms):
            asked_as = f"{kind}s, {'same' if number == own else 'other'} spelling"
            queries.append((asked_as, said.format(spelled(row[kind], form)), row["key"]))
    replies = Asked(stack, "spellings", stored).replies({"query": query} for _, query, _ in queries)
    for kind in dict.fromkeys(kind for kind, _, _ in queries):
        yield kind, told([(reply, [key]) for reply, (of, _, key) in zip(replies, queries, strict=True) if of == kind])


def pastes(stack: PrivateStack, rows: Sequence[Row], _: date) -> Iterator[tuple[str, Row]]:
    """Ask before and after pastes of several sizes, and by a hook after a larger one."""
    asked = Asked(stack, "pastes", [row for row in rows if "key" in row])
    questions = [row for row in rows if "query" in row]
    for way in ("question after", "question before"):
        found: list[tuple[Reply, Sequence[str]]] = []
        by_size: Row = {}
        for chars in SIZES:
            texts = [paste(row["kind"], chars, n) for n, row in enumerate(questions)]
            both = [(text, row["query"]) for text, row in zip(texts, questions, strict=True)]
            queries = [{"query": "\n\n".join(pair if way == "question after" else pair[::-1])} for pair in both]
            pairs = [(reply, row["expects"]) for reply, row in zip(asked.replies(queries), questions, strict=True)]
            by_size[f"{chars // 1_000} KB"] = told(pairs)["right"]
            found += pairs
        yield way, told(found) | by_size


def lists(stack: PrivateStack, rows: Sequence[Row], _: date) -> Iterator[tuple[str, Row]]:
    """Ask for things that more memories name than a reply shows."""
    asked = Asked(stack, "lists", [row for row in rows if "key" in row], around=LISTED)
    questions = [row for row in rows if "query" in row]
    replies = asked.replies({"query": row["query"]} for row in questions)
    pairs = [({*keys_of(reply)} & {*row["expects"]}, row, reply) for reply, row in zip(replies, questions, strict=True)]
    yield (
        "14 memories",
        {
            "n": len(pairs),
            "right": mean(
                reply.get("more", {}).get("n", 0) >= len(row["expects"]) - len(shown) for shown, row, reply in pairs
            ),
            "shown": mean(len(shown) / len(row["expects"]) for shown, row, _ in pairs),
        },
    )


def templates(stack: PrivateStack, rows: Sequence[Row], _: date) -> Iterator[tuple[str, Row]]:
    """List what contradicts among notes that only look alike."""
    true = {frozenset((row["key"], row["against"])) for row in rows if "against" in row}
    made = notes([row["template"] for row in rows if "template" in row])
    asked = Asked(stack, "templates", [*made, *(row for row in rows if "key" in row)], around=0)
    keys = asked.keys()
    listed: set[frozenset[str]] = set()
    cursor: Row = {}
    while True:
        (page,) = asked.replies([cursor], "list_contradictions")
        listed |= {frozenset((keys[pair["later"]], keys[pair["earlier"]])) for pair in page["pairs"]}
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    right = len(listed & true)
    yield "contradictions", {"n": len(true), "right": right / max(1, len(listed)), "recall": right / len(true),
                             "listed": len(listed)}  # fmt: skip


def handbooks(stack: PrivateStack, rows: Sequence[Row], _: date) -> Iterator[tuple[str, Row]]:
    """Ask for what stands in one section of a long note."""
    for name, chars in LONG:
        of = name.partition(",")[0]
        key = name.replace(", ", "-").replace(" ", "")
        text = handbook([(row["section"], row["text"]) for row in rows if "section" in row and row["of"] == of], chars)
        questions = [row for row in rows if "query" in row and row["of"] == of]
        asked = Asked(stack, key, [{"key": key, "content": text}])
        replies = asked.replies({"query": row["query"]} for row in questions)
        texts = [json.dumps(reply, ensure_ascii=False) for reply in replies]
        holds = [row["answer"] in text for text, row in zip(texts, questions, strict=True)]
        figures = told([(reply, [key]) for reply in replies])
        yield name, figures | {"right": mean(holds), "first": figures["right"], "chars": len(text)}


SETS: Final[dict[str, Callable[[PrivateStack, Sequence[Row], date], Iterator[tuple[str, Row]]]]] = {
    "times": times, "spellings": spellings, "pastes": pastes, "lists": lists, "templates": templates,
    "handbook": handbooks,
}  # fmt: skip


def measure(stack: PrivateStack, name: str, today: date) -> Iterator[Row]:
    """Print and yield the lines of a set."""
    rows = [row for row in read_lines(SET) if row["set"] == name]
    for what, figures in SETS[name](stack, rows, today):
        yield emit(BENCH, what, set=name, **figures)
