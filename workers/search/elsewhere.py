"""Say in which other projects a search would have found something, where it found nothing in its own."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands import SearchMemories
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import EVERY_PROJECT, Partition, Ranking
from engramq.workers.memories.other_projects import beside, describe_unknown_project, places
from engramq.workers.runner import Context

HITS: Final = ("hit", "hits")

Search = Callable[[SearchMemories], Awaitable[Sequence[Memory]]]


async def hint_of(command: SearchMemories, context: Context, search: Search) -> str | UnsetType:
    """Return where else there are hits for a search that shows nothing, and whether its project is there at all.

    `search` gives the hits of a search that the caller could send as well: trusted ones that he may see, and likely
    enough. It is asked once, for all projects, and only where there are others.
    """
    project = context.envelope.project_named(command.project)
    if project == EVERY_PROJECT or Partition.TRUSTED not in command.partitions:
        return UNSET
    namespace = context.envelope.namespace
    there = await beside(partial(context.store.look_up, namespace), project)
    said = []
    if project is not None and not there.is_known:
        is_named = command.project is not UNSET
        unknown = partial(describe_unknown_project, project=project, is_named=is_named)
        said.append(await context.store.read(namespace, unknown))
    if there.has_others or command.project_only:
        hits = await search(_everywhere(command))
        hits = sorted(hits, key=lambda hit: 0.0 if hit.relevance is UNSET else -hit.relevance)
        # What is in no project was looked at already, unless one project alone was.
        beside_it = (hit.project for hit in hits if hit.project != project and (hit.project or command.project_only))
        said.append(places(Counter(beside_it), HITS))
    return " ".join(filter(None, said)) or UNSET


def _everywhere(command: SearchMemories) -> SearchMemories:
    """Return the same search in all projects, by relevance, which has a floor unless the command names another one."""
    return msgspec.structs.replace(
        command,
        project=EVERY_PROJECT,
        project_only=False,
        partitions=(Partition.TRUSTED,),
        limit=limits.SEARCH_LIMIT,
        ranking=Ranking.RELEVANCE,
        min_relevance=command.min_relevance or UNSET,
        explain=False,
    )
