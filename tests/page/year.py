"""A year of one developer's memories: some 3,000 that were told to agents, for pictures and tests of a full page."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tests.page.stack import Stack

SEED: Final = 47
ROWS: Final = 3_000
BATCH: Final = 500
PROJECTS: Final = ("shop", "bakery", "atlas", "house", None)
PEOPLE: Final = ("Lena", "Jonas", "Mina", "Noor", "Tarek", "Ada")
_THINGS: Final = (
    "checkout", "search index", "login form", "nightly export", "invoice template", "price table", "image cache",
    "order queue", "newsletter", "staging server", "backup job", "heating", "route planner", "tile server", "oven",
)  # fmt: skip
_SENTENCES: Final = (
    "{who} wants the {thing} to answer within {n} ms, measured at the ninth decile.",
    "The {thing} failed on the {n}th attempt because its disk was full; the log is in /var/log/{slug}.log.",
    "We decided to keep the {thing} in PostgreSQL: one store, transactions, and {who} knows it well.",
    "Port of the {thing} on the test machine: {port}.",
    "{who} prefers to hear about the {thing} in writing, in the morning, with a picture of what changed.",
    "To restart the {thing}: stop the timer, wait {n} seconds, run `systemctl restart {slug}`, then look at the log.",
    "The {thing} needs version {major}.{minor} of its library; {major}.{next} breaks the parser.",
    "{who} was relieved that the move of the {thing} went through without a lost order.",
    "A supplier asked for the {thing} on paper; {who} sends it on the first of each month.",
)
_RETRY: Final = """Retry of the {thing} as it stands:

```python
for attempt in range({n}):
    try:
        return send(order)
    except TimeoutError:
        sleep(2 ** attempt)
```

After the **last** attempt {who} gets a mail."""
_CHECKLIST: Final = """# Checklist of the {thing}

- make a new key
- add it to the `JWKS`
- wait {n} minutes
- remove the old one

See [the runbook](https://example.org/{slug})."""


def records(now: datetime, rows: int = ROWS) -> Iterator[dict[str, Any]]:
    """Yield what agents were told, the oldest first; the same for the same time."""
    chance = random.Random(SEED)
    for row in range(rows):
        moment = now - timedelta(days=364 * (1 - row / rows), minutes=chance.randrange(600))
        thing, project = chance.choice(_THINGS), chance.choices(PROJECTS, (40, 25, 15, 10, 10))[0]
        text = chance.choice((_RETRY, _CHECKLIST) if row % 17 == 0 else _SENTENCES).format(
            who=chance.choice(PEOPLE), thing=thing, slug=thing.replace(" ", "-"), n=chance.randrange(2, 900),
            port=8_000 + row, major=chance.randrange(1, 9), minor=(minor := chance.randrange(1, 9)), next=minor + 1,
        )  # fmt: skip
        yield {
            "content": text,
            "project": project,
            "occurred_at": moment.astimezone(UTC).isoformat(timespec="seconds"),
            "speaker": chance.choice(PEOPLE),
            "tags": sorted({thing.split()[0], chance.choice(("decision", "incident", "howto", "people", "wish"))}),
        }


def conversations(now: datetime, sessions: int = 12) -> Iterator[dict[str, Any]]:
    """Yield captured turns with their answers and courtesies, as hooks bring them into the inbox."""
    chance = random.Random(SEED)
    for session in range(sessions):
        thing, who = chance.choice(_THINGS), chance.choice(PEOPLE)
        turns = (
            ("user", f"{who} says that the {thing} has moved to port {9_000 + session}. Keep that in mind."),
            ("assistant", f"Noted: the {thing} listens on port {9_000 + session} from now on."),
            ("user", "ok thanks"),
            ("assistant", "You're welcome!"),
            ("user", f"Why did we take the old {thing} away?"),
            ("assistant", f"Because it had no owner after {who} left the team in spring."),
        )
        for place, (speaker, text) in enumerate(turns):
            yield {
                "content": text, "speaker": speaker, "thread": f"session-{session:02}", "position": place,
                "source_type": "conversation", "project": "shop" if session % 2 else "atlas",
                "occurred_at": (now - timedelta(days=session, minutes=30 - place)).isoformat(timespec="seconds"),
            }  # fmt: skip


def fill_year(stack: Stack, principal: str, now: datetime, rows: int = ROWS) -> dict[str, str]:
    """Have an agent store all this, with changes, contradictions and a graph, and return ids that pictures show."""
    everything = [*records(now, rows), *conversations(now)]
    for at in range(0, len(everything), BATCH):
        stack.call(principal, "import_memories", records=everything[at : at + BATCH])
    return {
        **_changes(stack, principal),
        **_graph(stack, principal),
    }


def _changes(stack: Stack, principal: str) -> dict[str, str]:
    """Store what changed, what disagrees and what holds until further notice."""

    def store(content: str, **more: Any) -> str:
        stored: str = stack.call(principal, "store_memory", content=content, **more)["stored"]["id"]
        return stored

    ids = {"old": store("The payment service listens on port 9411 and keeps its logs for seven days.", project="shop")}
    ids["memory"] = store(
        "The payment service listens on port 9412 and keeps its logs for thirty days.\n\n"
        "```bash\ncurl -s http://localhost:9412/healthz | jq .status\n```\n\nAsk **Noor** before you restart it.",
        project="shop", speaker="Lena", tags=["payment", "howto"],
        evidence=[{"path": "services/payment.toml", "lines": "3"}],
    )  # fmt: skip
    stack.call(principal, "supersede_memory", old_memory_id=ids["old"], new_memory_id=ids["memory"])
    for earlier, later in (("14", "30"), ("Tuesday", "Thursday"), ("120", "90")):
        store(f"The refund period of the shop is {earlier} days, says the handbook page on returns.", project="shop")
        store(f"The refund period of the shop is {later} days, says the handbook page on returns.", project="shop")
    store("Always answer in short sentences, and name the file that you changed.", standing=True)
    store("From now on never deploy on a Friday.", standing=True, project="shop")
    for question in ("Which port does the payment service have?", "refund period", "restart the oven", "Lena"):
        found = stack.call(principal, "search_memories", query=question)["memories"]
        if found:
            stack.call(principal, "record_outcome", memory_ids=[found[0]["id"]], signal=1)
    return ids


def _graph(stack: Stack, principal: str) -> dict[str, str]:
    """Store who owns and uses what: nodes of several labels."""
    edges = [
        {"source_name": name, "source_label": "Person", "relation": "WORKS_ON", "target_name": project,
         "target_label": "Project"}
        for place, name in enumerate(PEOPLE) for project in (PROJECTS[place % 4], PROJECTS[(place + 1) % 4])
    ]  # fmt: skip
    for place, thing in enumerate(_THINGS):
        edges.append({"source_name": PROJECTS[place % 4], "source_label": "Project", "relation": "HAS",
                      "target_name": thing, "target_label": "Service"})  # fmt: skip
        edges.append({"source_name": thing, "source_label": "Service", "relation": "RUNS_ON",
                      "target_name": f"host-{place % 7}", "target_label": "Host"})  # fmt: skip
        edges.append({"source_name": PEOPLE[place % 6], "source_label": "Person", "relation": "OWNS",
                      "target_name": thing, "target_label": "Service"})  # fmt: skip
        edges += [
            {"source_name": thing, "source_label": "Service", "relation": "USES",
             "target_name": f"lib-{(place * 2 + library) % 23}", "target_label": "Library"}
            for library in range(2)
        ]  # fmt: skip
    stack.call_all(principal, "graph_add_edge", edges)
    return {"node": "shop"}
