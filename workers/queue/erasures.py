"""Have a process forget what it remembers of texts soon after another process erased some."""

import logging
from collections.abc import Awaitable, Callable

from engramq.schemas.connection import pack
from engramq.schemas.keys import Keys
from engramq.workers.queue.pipeline import ConnectionLost, Pipeline

log = logging.getLogger(__name__)


class Erasures:
    """The erasures of one lane, by a mark that each writes anew; `forget` takes what is erased out of this process."""

    def __init__(self, keys: Keys, pipeline: Pipeline, forget: Callable[[], Awaitable[None]]) -> None:
        self._key = keys.last_erased
        self._pipeline = pipeline
        self._forget = forget
        self._mark: object = None
        self._again = False

    async def look(self) -> None:
        """Forget if something was erased since the last look, or if that cannot be known.

        The next look forgets once more: a reader that began before the erasure may have remembered a text since.
        """
        try:
            mark = await self._pipeline.call(pack("GET", self._key))
        except ConnectionLost:
            await self._try_to_forget()
            return
        is_new = mark != self._mark
        is_done = await self._try_to_forget() if is_new or self._again else True
        self._mark, self._again = mark, is_new or not is_done

    async def _try_to_forget(self) -> bool:
        try:
            await self._forget()
        except Exception as problem:  # noqa: BLE001 - whatever goes wrong, the worker lives, and looks again
            log.warning("What was erased could not all be forgotten: %s", type(problem).__name__)
            return False
        return True
