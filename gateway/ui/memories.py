"""Show memories, searched or listed."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlencode

from starlette.responses import Response

from engramq.gateway.budget import Body
from engramq.gateway.router import PAGE_PATH
from engramq.gateway.ui.bulk_actions import CHANGES, PUBLISHING, BulkQuestion, Verdicts, decide
from engramq.gateway.ui.request import PageRequest, unless_refused
from engramq.schemas import limits
from engramq.schemas.contents import split_by_relevance
from engramq.schemas.faults import invalid
from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import (
    BOTH_HOLD,
    EVERY_PROJECT,
    CitationState,
    EvidenceFilter,
    MemoryState,
    Partition,
    ProposalState,
    Sector,
    Verification,
)

ANYWHERE: Final = {"project": EVERY_PROJECT}
PAGE_ROWS: Final = 25
HITS: Final = 20
NEW_COUNTED: Final = 1_000  # memories, beyond which the start page says that there are more
BOTH: Final = "both"
FACET_TITLES: Final = {"project": "Project", "sector": "Kind", "state": "State", "partition": "Trust"}
FACETS: Final = 12  # words of one kind, those with most memories
LOOKS: Final = 30  # that a page of contradictions takes by itself until it shows one
LOOK_DIGITS: Final = 3  # of such a number that are read
_STALE: Final = frozenset({CitationState.CHANGED, CitationState.GONE})
# What both a search and a list take as it stands in the form, and what lists alone take.
_SHARED: Final = ("thread", "since", "until", "stored_since", "stored_until", "as_of")
_OF_LISTS: Final = ("source_type", "created_by", "external_id", "evidence")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilters:
    """The filters of the form, as they stand in the address; "" means no filter."""

    q: str = ""
    partition: str = Partition.TRUSTED
    sector: str = ""
    state: str = ""
    verification: str = ""
    evidence: str = ""
    tags: str = ""
    project: str = ""
    source_type: str = ""
    created_by: str = ""
    thread: str = ""
    external_id: str = ""
    since: str = ""
    until: str = ""
    stored_since: str = ""
    stored_until: str = ""
    as_of: str = ""
    superseded: bool = False

    @classmethod
    def of(cls, page: PageRequest) -> Self:
        """Return those in the address; words that are none count as not given."""
        words = {
            "partition": (*Partition, BOTH),
            "sector": tuple(Sector),
            "state": tuple(MemoryState),
            "verification": tuple(Verification),
            "evidence": tuple(EvidenceFilter),
        }
        chosen = {name: given for name, known in words.items() if (given := page.query(name)) in known}
        texts = {name: page.query(name) for name in cls.__slots__ if name not in (*words, "superseded")}
        return cls(superseded=page.query("superseded") == "1", **texts, **chosen)

    @property
    def partitions(self) -> list[str]:
        """The partitions that are asked for."""
        return list(Partition) if self.partition == BOTH else [self.partition]

    @property
    def common(self) -> dict[str, Any]:
        """The parameters that search and list share.

        A project that is named is meant alone, without what is in none.
        """
        return {
            "partitions": self.partitions,
            "sectors": [self.sector] if self.sector else None,
            "tags": [tag.strip() for tag in self.tags.split(",") if tag.strip()],
            "project": self.project or EVERY_PROJECT,
            "project_only": bool(self.project) or None,
            **{name: getattr(self, name) for name in _SHARED},
            "include_superseded": self.superseded or None,
        }

    @property
    def of_list(self) -> dict[str, Any]:
        """The parameters of a list and of the counts of its timeline."""
        return {
            "states": [self.state] if self.state else None,
            "verifications": [self.verification] if self.verification else None,
            **{name: getattr(self, name) for name in _OF_LISTS},
            **self.common,
        }

    def with_word(self, name: str, word: str) -> Self:
        """Return these filters with another word in one of them."""
        changed: dict[str, Any] = {name: word}
        return replace(self, **changed)

    @property
    def have_more(self) -> bool:
        """Whether more is asked for than what facets offer."""
        return replace(self, q="", project="", sector="", state="", partition=Partition.TRUSTED) != MemoryFilters()

    @property
    def are_set(self) -> bool:
        """Whether more is asked for than a search for these words in trusted."""
        return self != MemoryFilters(q=self.q)

    @property
    def address(self) -> str:
        """These filters as the query of an address."""
        said = {name: getattr(self, name) for name in self.__slots__}
        return urlencode({name: 1 if value is True else value for name, value in said.items() if value})


class Facet(NamedTuple):
    """One word to filter by, how many memories have it, and the address that takes it, or gives it up again."""

    word: str
    memory_count: int
    address: str
    is_chosen: bool


async def show_facets(page: PageRequest) -> Response:
    """Show the words to filter by, each with how many memories the list would have with it."""
    filters = MemoryFilters.of(page)
    named = ("partitions", "sectors", "states", "project", "project_only", "include_superseded")
    counted = await page.ask("count_facets", **{name: filters.of_list[name] for name in named})
    by_partition = counted["by_partition"]
    counted["by_partition"] = {**by_partition, BOTH: sum(by_partition.values())}
    usual = {"partition": str(Partition.TRUSTED)}

    def choices(name: str) -> list[Facet]:
        found = []
        for word, count in list(counted[f"by_{name}"].items())[:FACETS]:
            chosen = getattr(filters, name) == word
            wanted = filters.with_word(name, usual.get(name, "") if chosen else word)
            if count or chosen:
                found.append(Facet(word, count, wanted.address, chosen))
        return found

    return page.render("facets.html", facets=[(title, choices(name)) for name, title in FACET_TITLES.items()])


async def change_many(page: PageRequest) -> Response:
    """Archive or tag the memories that are selected, or all that were shown, and tell what came of each."""
    found = await _read(page, MemoryFilters.of(page))
    decided = await decide(page, {**PUBLISHING, **CHANGES}, found[0]["memories"], may_cut=True)
    return await show_memories(page, decided, found if isinstance(decided, BulkQuestion) else None)


async def show_memories(
    page: PageRequest, decided: Verdicts | BulkQuestion | None = None, found: tuple[Body, int, int] | None = None
) -> Response:
    """Show what a search found, else the newest memories that pass the filters, unless these are `found` already."""
    filters = MemoryFilters.of(page)
    nothing: Body = {"memories": [], "next_cursor": None}
    (shown, left_out, best), refusal = (
        (found, None) if found else await unless_refused(_read(page, filters), (nothing, 0, HITS))
    )
    likely, unlikely = split_by_relevance(shown["memories"])
    return page.render(
        "memories.html",
        status=400 if refusal else 200,
        filters=filters,
        shown=shown,
        likely=likely,
        unlikely=unlikely,
        refusal=refusal,
        left_out=left_out,
        decided=decided,
        best=best,
        words={
            "sector": list(Sector),
            "state": list(MemoryState),
            "verification": list(Verification),
            "evidence": list(EvidenceFilter),
        },
    )


async def _read(page: PageRequest, filters: MemoryFilters) -> tuple[Body, int, int]:
    """Return what was found or is listed, how many hits the filters left out, and the most hits that a search shows."""
    if filters.q:
        return await _search(page, filters)
    return await list_memories(page, filters, PAGE_ROWS), 0, HITS


async def _search(page: PageRequest, filters: MemoryFilters) -> tuple[Body, int, int]:
    """Return what a search found, how many hits filters left out that searches do not have, and the limit of both."""
    names = ("state", "verification", "source_type", "created_by", "external_id")
    wanted = {name: getattr(filters, name) for name in names if getattr(filters, name)}
    limit = limits.SEARCH_LIMIT if wanted or filters.evidence else HITS
    asked = {"query": filters.q, "limit": limit, "explain": True, "min_relevance": 0, **filters.common}
    shown = await page.ask("search_memories", **asked)
    hits = shown["memories"]
    shown["memories"] = [
        hit
        for hit in hits
        if all(hit.get(name) == value for name, value in wanted.items()) and _rests(hit, filters.evidence)
    ]
    return shown, len(hits) - len(shown["memories"]), limit


def _rests(hit: Body, wanted: str) -> bool:
    """Say whether a hit rests on anything, or on what has changed, as the filter wants."""
    states = [citation.get("state") for citation in hit.get("evidence") or ()]
    return bool(states) if wanted == EvidenceFilter.CITED else not wanted or bool(_STALE.intersection(states))


async def list_memories(page: PageRequest, filters: MemoryFilters, limit: int) -> Body:
    """Return the newest memories that pass the filters, from the cursor in the address on."""
    return await page.ask("list_recent_memories", limit=limit, cursor=page.query("cursor"), **filters.of_list)


async def list_stored_since(page: PageRequest, since: str, limit: int, cursor: str = "") -> Body:
    """Return the newest memories that were stored since a time, of every project and partition, from the cursor on."""
    place = {"limit": limit, "cursor": cursor}
    return await page.ask("list_recent_memories", stored_since=since, partitions=list(Partition), **ANYWHERE, **place)


async def count_waiting(page: PageRequest, since: str) -> dict[str, int]:
    """Return how many memories are new since a time, how many wait for a decision, and how many proposals do."""
    new, undecided, proposals = await asyncio.gather(
        count_memories(page, stored_since=since, at_most=NEW_COUNTED),
        count_memories(page, partitions=(Partition.UNTRUSTED,)),
        page.ask("list_proposals", state=str(ProposalState.PENDING)),
    )
    return {"new": new, "undecided": undecided, "proposals": len(proposals["proposals"])}


async def count_memories(
    page: PageRequest, project: str = "", *, partitions: Iterable[Partition] = Partition, **filters: str | int
) -> int:
    """Return how many memories a list of one project, or of all, would show."""
    place = {"project": project or EVERY_PROJECT, "project_only": bool(project) or None}
    counted = await page.ask("count_memories", partitions=list(partitions), **place, **filters)
    return sum(span["memory_count"] for span in counted["spans"])


async def list_pairs(page: PageRequest, project: str) -> Body:
    """Return pairs of memories that say otherwise about the same thing, of a project or of all, from the cursor on."""
    return await page.ask("list_contradictions", project=project or EVERY_PROJECT, cursor=page.query("cursor"))


async def show_contradictions(page: PageRequest) -> Response:
    """Show pairs of memories that say otherwise about the same thing, of one project or of all."""
    project = page.query("project")
    shown = await list_pairs(page, project)
    replaced = parse_uuid(page.query("replaced"))  # nothing else may stand in the address of a form
    looks = 0 if shown["pairs"] else _count_looks(page.query("looks"))
    return page.render("contradictions.html", shown=shown, project=project, replaced=replaced, looks=looks)


def _count_looks(before: str) -> int:
    """Return which look a page without pairs has the browser take by itself, 0 when a person is to ask for it."""
    looks = int(before[:LOOK_DIGITS]) + 1 if before.isdecimal() else 1
    return looks if looks <= LOOKS else 0


async def decide_pair(page: PageRequest) -> Response:
    """Keep one of two memories that disagree, in the place of the other, or say that both hold."""
    keeps, pair = page.entry("keep"), {"later": page.entry("later"), "earlier": page.entry("earlier")}
    address = f"{PAGE_PATH}/contradictions"
    if keeps == BOTH:
        await page.ask("connect", source=pair["later"], target=pair["earlier"], relation=BOTH_HOLD)
        return page.go(address, done="both_hold", project=page.entry("project"))
    if keeps not in pair:
        raise invalid("keep", "That is no decision.", f"There are {', '.join((*pair, BOTH))}.")
    kept = pair.pop(keeps)
    (goes,) = pair.values()
    await page.ask("supersede_memory", old_memory_id=goes, new_memory_id=kept)
    return page.go(address, done="decided", replaced=goes, project=page.entry("project"))
