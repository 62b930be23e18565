"""What an agent does in one piece of work, without a model: it looks up, learns, corrects, and hands over.

Each window works on a project of its own, whose name is in all that it stores. The agent knows from the replies alone
which memory is which, and says so with every call that acts on one.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Final

ACTIVE: Final = "active"
SUPERSEDED: Final = "superseded"
ARCHIVED: Final = "archived"


@dataclass(frozen=True)
class Step:
    """One call, and the memories that it acts on: those that its reply has to name, and no others."""

    tool: str
    arguments: dict[str, Any]
    about: tuple[str, ...] = ()


@dataclass
class Book:
    """What an agent has stored, and the state that it has left each memory in."""

    states: dict[str, str] = field(default_factory=dict)

    def note(self, body: dict[str, Any]) -> str:
        """Note a memory that was stored now; return its id."""
        memory_id: str = body["stored"]["id"]
        self.states[memory_id] = ACTIVE
        return memory_id


def work(project: str, number: int, book: Book) -> Generator[Step, dict[str, Any], None]:
    """Yield the calls of one piece of work; each is answered with the body of its reply."""
    person = f"Dana of {project}"
    yield Step("search_memories", {"query": f"how is {project} deployed?"})
    deploy = book.note((yield _store(
        f"{project}, task {number}: the service is deployed from the release branch every Tuesday at 10:00, after the "
        "integration tests on staging have passed; the pipeline stops by itself when one of them fails."
    )))  # fmt: skip
    rollback = book.note((yield _store(
        f"{project}, task {number}: a release is rolled back with the command `ship rollback`, which restores the last "
        "image within two minutes and leaves the database as it is; migrations are never undone by it."
    )))  # fmt: skip
    yield Step(
        "connect",
        {"source": "@stored", "target": deploy, "relation": "elaborates", "note": "what to do when it fails"},
        about=(rollback, deploy),
    )
    approval = book.note((yield _store(f"{project}, task {number}: releases are approved by {person} in person.")))
    found = yield Step("search_memories", {"query": f"who approves releases of {project}, task {number}?", "limit": 5})
    yield Step(
        "record_outcome",
        {"memory_ids": [_place(found, approval)], "signal": 0.9, "note": "the release went out"},
        about=(approval,),
    )
    successor = book.note((yield _store(
        f"{project}, task {number}: since November releases are approved by whoever is on call, no longer by {person}."
    )))  # fmt: skip
    yield Step(
        "supersede_memory",
        {"old_memory_id": _place(found, approval), "new_memory_id": "@stored"},
        about=(approval, successor),
    )
    book.states[approval] = SUPERSEDED
    yield Step(
        "update_memory",
        {"memory_id": "@stored", "metadata": {"ticket": f"OPS-{number}"}, "confidence": 0.9},
        about=(successor,),
    )
    yield Step("get_memory", {"memory_id": "@stored"}, about=(successor,))
    yield Step("list_recent_memories", {"limit": 10})
    yield from _facts(project, person)
    mistake = book.note((yield _store(f"{project}, task {number}: the staging database may be dropped at any time.")))
    yield Step("forget_memory", {"memory_id": "@stored", "reason": "this was about another system"}, about=(mistake,))
    book.states[mistake] = ARCHIVED
    found = yield Step("search_memories", {"query": f"what do we do when a release of {project} fails?", "limit": 5})
    edge = {"source": _place(found, rollback), "target": successor, "relation": "supports"}
    yield Step("connects", {"edges": [edge]}, about=(rollback, successor))
    yield Step("get_breadcrumbs", {}, about=(mistake,))


def _facts(project: str, person: str) -> Generator[Step, dict[str, Any], None]:
    edge = {"source_name": person, "target_name": project, "relation": "MAINTAINS"}
    yield Step("graph_add_edge", {**edge, "properties": {"since": "2025"}})
    yield Step("get_edge", edge)
    yield Step("graph_query_neighbors", {"node_name": project})


def _store(content: str) -> Step:
    return Step("store_memory", {"content": content})


def _place(found: dict[str, Any], memory_id: str) -> str:
    """Return how an agent names a memory: by its place in what was found last, else by its id."""
    ids = [memory["id"] for memory in found.get("memories", ())]
    return f"@recalled[{ids.index(memory_id)}]" if memory_id in ids else memory_id
