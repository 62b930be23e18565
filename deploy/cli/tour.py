"""The tour of `engramq demo`: what two agents and a person see, as calls of tools, and then on the page.

It fills a home with the decisions of this project, docs/decisions, which the package brings. An entry there:
`- 2026-11-22, superseded 2026-11-24 by "There is one database" (store). **A tenant lives in ...**: ...`
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import click

import engramq
from engramq.deploy.cli.output import ID_CHARS, ReplyBody, printable, refuse
from engramq.deploy.cli.tool_client import WHOLE, home_client
from engramq.deploy.local import settings
from engramq.schemas.command_line import count_of

ONWARDS: Final = "Enter goes on."
CHARS: Final = 90  # of a memory in the tour
HITS: Final = 3
LEAST: Final = 0.05  # relevance of a hit
DECISIONS: Final = 120  # the newest so many: making vectors of all would take most of the demo's time
# A decision, and a question in other words.
MONDAY: Final = "We deploy the shop on Tuesdays; nothing goes out on a Friday"
TUESDAY: Final = "can I ship this change on Friday?"
WEDNESDAY: Final = "Since the on-call rota is full again we deploy the shop on any weekday, Fridays too"
OF_DECISIONS: Final = "may a tenant live in a database of its own?"
FOLDER: Final = Path(engramq.__file__).with_name("decisions")
_ENTRY: Final = re.compile(r"^- (\d{4}-\d\d-\d\d), (.+?)\. (\*\*.*(?:\n  .*)*)", re.MULTILINE)
_REPLACED: Final = re.compile(r"superseded ([\d-]+) by \"(.+)\" \((\w+)\)", re.DOTALL)


class Tour:
    """Fills the home that an environment names, and shows it; `pause` waits for the spectator."""

    def __init__(self, environment: Mapping[str, str], http: str, pause: Callable[[str], None]) -> None:
        self._environment = environment
        self._page = f"{http}/ui"
        self._pause = pause

    def fill(self) -> None:
        """Keep the newest decisions of this project, and all that were replaced, which are superseded.

        The latter and their replacements are stored one by one, so that they have their vectors at once.
        """
        decisions = list(read_decisions())
        pairs = list(supersessions(decisions))
        singly = {index for pair in pairs for index in pair}
        rest = [decision.record() for index, decision in enumerate(decisions) if index not in singly][-DECISIONS:]
        with home_client(self._as("decisions")) as gateway:
            ids = {
                index: _require_stored(gateway.write("store_memory", decisions[index].record()))
                for index in sorted(singly)
            }
            refuse(gateway.write("import_memories", {"records": rest}))
            for old, new in pairs:
                refuse(gateway.write("supersede_memory", {"old_memory_id": ids[old], "new_memory_id": ids[new]}))
        click.echo(
            f"Kept {count_of(len(ids) + len(rest), 'decision')} of this project, {len(pairs)} of them superseded by "
            "later ones. The vectors of most follow in the background."
        )

    def show(self) -> None:
        """Go through the tour; raises CommandFailed where a call is refused or not done in time."""
        self._heading("Monday: Claude Code learns something")
        old = self._store("claude-code", MONDAY)
        self._heading("Tuesday: Codex, another client, is asked in other words")
        self._search("codex", TUESDAY)
        self._heading("Wednesday: it is no longer so. Claude Code stores what holds now, and supersedes the old memory")
        new = self._store("claude-code", WEDNESDAY)
        self._call("claude-code", "supersede_memory", {"old_memory_id": old, "new_memory_id": new})
        click.echo("  superseded: searches and lists hide the old one, in every client, from now on")
        self._heading("Thursday: Codex is asked the same, and the old memory stays away")
        self._search("codex", TUESDAY)
        self._heading("It is not lost: who asks for history gets it")
        self._search("codex", TUESDAY, include_superseded=True)
        self._heading("The same with the decisions of this project: there were several databases once")
        self._search("codex", OF_DECISIONS)
        self._search("codex", OF_DECISIONS, include_superseded=True)
        self._heading("Who did what is kept, in a log that nobody can change unseen: engramq audit")
        self._heading("All of it on the page")
        for name, path in (
            ("overview", ""),
            ("memories", f"/memories?{urlencode({'q': OF_DECISIONS})}"),
            ("inbox", "/inbox"),
            ("audit", "/audit"),
        ):
            click.echo(f"  {name:10} {self._page}{path}")
        self._pause("Enter stops it.")

    def _as(self, principal: str) -> dict[str, str]:
        return {**self._environment, settings.PRINCIPAL: principal}

    def _heading(self, text: str) -> None:
        self._pause(ONWARDS)
        click.echo("\n" + click.style(text, bold=True))

    def _call(self, principal: str, tool: str, arguments: Mapping[str, Any]) -> ReplyBody:
        said = ", ".join(f"{name}={_short(value)!r}" for name, value in arguments.items())
        click.echo(click.style(f"  {principal}> {tool}({said})", fg="cyan"))
        with home_client(self._as(principal)) as gateway:
            reply = gateway.call(tool, arguments) if tool == "search_memories" else gateway.write(tool, arguments)
        refuse(reply)
        return reply

    def _store(self, principal: str, content: str) -> str:
        stored = _require_stored(self._call(principal, "store_memory", {"content": content}))
        click.echo(f"  stored {_short(stored)}: it is committed, and the next search finds it")
        return stored

    def _search(self, principal: str, query: str, **options: Any) -> None:
        reply = self._call(principal, "search_memories", {"query": query, "limit": HITS, **options})
        likely = [memory for memory in reply["memories"] if memory["relevance"] >= LEAST]
        answering = [] if reply["answered"] == "no" else likely
        for memory in answering:
            mark = click.style("superseded: ", fg="yellow") if memory.get("superseded_by") else ""
            text = printable(memory["content"])
            click.echo(f"  - {mark}{text if len(text) <= CHARS else text[:CHARS] + ' ...'}")
        if not answering:
            click.echo("  nothing that is kept answers this")


def _require_stored(reply: ReplyBody) -> str:
    """Return the id of what was stored; raises CommandFailed for a refusal, and for what is not done in time."""
    refuse(reply)
    return str(reply["stored"]["id"])


def _short(value: Any) -> Any:
    """Return an id as lists show it, and any other value as it is."""
    return value[:ID_CHARS] if isinstance(value, str) and WHOLE.fullmatch(value) else value


@dataclass(frozen=True, slots=True)
class ProjectDecision:
    """One entry. `by`: with what the text begins that stands in its place now, "" where nothing does."""

    page: str
    day: str
    text: str
    by: str = ""

    def record(self) -> dict[str, Any]:
        """Return it as import_memories takes it."""
        return {"content": self.text, "occurred_at": self.day, "tags": ["decision", self.page]}


def read_decisions() -> Iterator[ProjectDecision]:
    """Yield the entries of all pages, in the order of their days."""
    found = [decision for page in FOLDER.glob("*.md") for decision in _entries(page)]
    yield from sorted(found, key=lambda decision: (decision.day, decision.page))


def _entries(page: Path) -> Iterator[ProjectDecision]:
    for day, status, text in _ENTRY.findall(page.read_text(encoding="utf-8")):
        replaced = _REPLACED.fullmatch(" ".join(status.split()))
        plain = " ".join(text.replace("**", "").split())
        yield ProjectDecision(replaced[3] if replaced else page.stem, day, plain, replaced[2] if replaced else "")


def supersessions(decisions: Sequence[ProjectDecision]) -> Iterator[tuple[int, int]]:
    """Yield (index of the old one, index of what stands in its place)."""
    for old, decision in enumerate(decisions):
        if decision.by:
            same_page = (
                (new, other) for new, other in enumerate(decisions) if other.page == decision.page and not other.by
            )
            yield old, next(new for new, other in same_page if other.text.startswith(decision.by))
