"""Have a process forget what it remembers of texts soon after another process erased some."""

from collections.abc import Awaitable, Callable

from engramq.schemas.connection import pack
from engramq.schemas.keys import Keys
from engramq.workers.queue.pipeline import ConnectionLost, Pipeline


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
            await self._forget()
            return
        is_new = mark != self._mark
        if is_new or self._again:
            await self._forget()
        self._mark, self._again = mark, is_new
