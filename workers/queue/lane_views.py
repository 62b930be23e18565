"""What handlers and operators may ask about the queue, over every lane: former ones too, which may hold something."""

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Self, TypeVar

from redis.asyncio import Redis

from engramq.schemas.clients import CLIENT_ERRORS, open_client
from engramq.schemas.envelope import Answer, PrincipalId
from engramq.schemas.jobs import ALIVE_S
from engramq.schemas.lanes import Lane, Lanes
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.append_only import NotRewritten
from engramq.workers.queue.contract import OutcomeUnknown
from engramq.workers.queue.dead_letters import DeadLetter, DeadLetters
from engramq.workers.queue.inspection import Inspection

log = logging.getLogger(__name__)

LETTERS_S: Final = 5.0  # to connect, and for an answer

_T = TypeVar("_T")


class LaneViews:
    """Implements MailboxView for all lanes; use as `async with LaneViews(...)`. Raises what Inspection raises.

    A lane that is away holds nothing up that is not in it: what only counts or finds goes on without it. Erasing does
    not, where the lane may hold what is to be erased.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._owned = AsyncExitStack()
        self._views: dict[str, Inspection] = {}
        for lane in lanes.all:
            self._view(lane)
        self._most, self._most_at = 0, float("-inf")  # as the mark was read last, and when

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._owned.aclose()

    async def depths(self) -> Mapping[WorkerKind, tuple[int, int]]:
        """Return (commands waiting or running, dead letters) by mailbox, of the lanes that answer."""
        former = self._lanes.former(await self._most_of_late())
        views = [self._view(lane) for lane in (*self._lanes.all, *former.values())]
        found, away = await _reached(view.depths() for view in views)
        if not found:
            raise away[0]
        if away:
            log.warning("Lanes do not answer", extra={"lanes": len(away)})
        return {
            kind: (sum(depths[kind][0] for depths in found), sum(depths[kind][1] for depths in found))
            for kind in WorkerKind
        }

    async def find(self, command_id: str, namespace: str, principal: PrincipalId | None) -> Answer | bool | None:
        """Look for a command that the ledger does not know; see MailboxView."""
        views = self._holding(namespace, await self._most_of_late())
        found, away = await _reached(view.find(command_id, namespace, principal) for view in views)
        known = next((one for one in found if one is not None), None)
        if known is None and away:
            raise away[0]  # it may be there
        return known

    async def scrub(self, namespace: str, erased: Mapping[str, str]) -> int:
        """Remove erased memories from wherever they wait; see MailboxView."""
        views = self._holding(namespace, await self._most_now())
        return sum(await _all([view.scrub(namespace, erased) for view in views]))

    async def scrub_namespace(self, namespace: str) -> int:
        """Remove what waits for a namespace that is being deleted; see MailboxView."""
        views = self._holding(namespace, await self._most_now())
        return sum(await _all([view.scrub_namespace(namespace) for view in views]))

    async def rewrite_log(self, *, at_once: bool = False) -> bool:
        """Have every server forget the history of what was erased; see MailboxView.

        Raises what a lane that is away raises, once the others have been asked: one after another, since a server
        that has several lanes writes one file at a time.
        """
        former = self._lanes.former(await (self._most_now() if at_once else self._most_of_late()))
        views = [self._view(lane) for lane in (*self._lanes.all, *former.values())]
        if at_once:
            servers = await _all([view.server() for view in views])
            views = list(dict(zip(servers, views, strict=True)).values())
        done, problems = [], []
        for view in views:
            try:
                done.append(await view.rewrite_log(at_once=at_once))
            except (OutcomeUnknown, NotRewritten) as problem:
                problems.append(problem)
        if problems:
            raise problems[0]
        return any(done)

    def _holding(self, namespace: str, most: int) -> Sequence[Inspection]:
        """Return the views of the lanes that may hold something of a namespace, the present one first."""
        return [self._view(lane) for lane in self._lanes.held(namespace, most).values()]

    async def _most_now(self) -> int:
        """Return how many lanes there have ever been; raises OutcomeUnknown where nobody can say."""
        self._most = await self._view(self._lanes.first).number(self._lanes.mark)
        self._most_at = time.monotonic()
        return self._most

    async def _most_of_late(self) -> int:
        """Return the same as it was some seconds ago, or whenever it could be asked last."""
        if time.monotonic() - self._most_at < ALIVE_S:
            return self._most
        try:
            return await self._most_now()
        except OutcomeUnknown:
            return self._most

    def _view(self, lane: Lane) -> Inspection:
        view = self._views.get(lane.keys.prefix)
        if view is None:
            view = self._views[lane.keys.prefix] = Inspection(lane.redis, lane.keys)
            self._owned.push_async_exit(view)
        return view


async def _all(calls: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Make calls side by side and wait for the end of each; raises what the first raised that failed."""
    found = await asyncio.gather(*calls, return_exceptions=True)
    results = [one for one in found if not isinstance(one, BaseException)]
    if len(results) < len(found):
        raise next(one for one in found if isinstance(one, BaseException))
    return results


async def _reached(calls: Iterable[Coroutine[Any, Any, _T]]) -> tuple[list[_T], list[BaseException]]:
    """Make calls side by side; return what those returned that reached their server, and why the others did not."""
    found = await asyncio.gather(*calls, return_exceptions=True)
    away: list[BaseException] = [one for one in found if isinstance(one, (OutcomeUnknown, *CLIENT_ERRORS))]
    for problem in found:
        if isinstance(problem, BaseException) and problem not in away:
            raise problem
    return [one for one in found if not isinstance(one, BaseException)], away


class LaneLetters:
    """The dead letters of every lane; use as `async with LaneLetters(...)`. Redis's errors come through.

    `away`: how many lanes did not answer, so that what is said is said without them.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._owned = AsyncExitStack()
        self._letters: list[DeadLetters] = []
        self.away = 0

    async def __aenter__(self) -> Self:
        clients = {lane.keys.prefix: (lane, self._client(lane)) for lane in self._lanes.all}
        first = clients[self._lanes.first.keys.prefix][1]
        marks, _ = await _reached([_number(first, self._lanes.mark)])
        former = self._lanes.former(marks[0]) if marks else {}
        clients |= {prefix: (lane, self._client(lane)) for prefix, lane in former.items()}
        self._letters = [DeadLetters(client, lane.keys) for lane, client in clients.values()]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._owned.aclose()

    async def list(self, mailbox: WorkerKind, limit: int = 100, namespace: str | None = None) -> list[DeadLetter]:
        """Return the newest letters of a mailbox, of one namespace if it is named, the newest first.

        Those of lanes that are away are missing; raises where all are.
        """
        found, away = await _reached(letters.list(mailbox, limit, namespace) for letters in self._letters)
        self.away = max(self.away, len(away))
        if not found:
            raise away[0]
        return sorted((letter for several in found for letter in several), key=lambda letter: -letter.died_at)[:limit]

    async def show(self, letter_id: str) -> DeadLetter | None:
        """Return the letter with this id, in whatever lane it is."""
        found = await self._holder(letter_id)
        return None if found is None else found[1]

    async def retry(self, letter_id: str) -> bool:
        """Put a letter back into the mailbox that it came from; False when it is gone or the mailbox is full."""
        found = await self._holder(letter_id)
        return found is not None and await found[0].retry(letter_id)

    async def drop(self, letter_id: str) -> bool:
        """Remove a letter for good; False when there is none."""
        found = await self._holder(letter_id)
        return found is not None and await found[0].drop(letter_id)

    async def _holder(self, letter_id: str) -> tuple[DeadLetters, DeadLetter] | None:
        """Return a letter and where it is; raises where it may be in a lane that is away."""
        found, away = await _reached(_shown(letters, letter_id) for letters in self._letters)
        holder = next(((letters, letter) for letters, letter in found if letter is not None), None)
        if holder is None and away:
            raise away[0]
        return holder

    def _client(self, lane: Lane) -> Any:
        client: Redis = open_client(lane.redis, timeout_s=LETTERS_S)
        self._owned.push_async_callback(client.aclose)
        return client


async def _number(client: Any, key: str) -> int:
    return int(await client.get(key) or 0)


async def _shown(letters: DeadLetters, letter_id: str) -> tuple[DeadLetters, DeadLetter | None]:
    return letters, await letters.show(letter_id)
