"""How sure the model that is running may be of a best match."""

import asyncio
from functools import partial

from engramq.workers.embedders.calibrated.curve import calibration_of
from engramq.workers.embedders.calibrated.shipped import SHIPPED
from engramq.workers.embedders.calibration import Calibration
from engramq.workers.embedders.vectorizer import Vectorizer


class Confidence:
    """One per process. The curve is found when it is first asked for, once; who asks meanwhile waits for it."""

    def __init__(self, vectorizer: Vectorizer) -> None:
        self._vectorizer = vectorizer
        self._finding = asyncio.Lock()
        self._found: Calibration | None = None

    @property
    def known(self) -> Calibration | None:
        """The curve if it is shipped or has been found."""
        return self._found or SHIPPED.get(self._vectorizer.spec.sha256)

    async def calibration(self) -> Calibration:
        """Return the curve of the model. Raises EmbedderUnavailable; then the next caller tries again."""
        async with self._finding:
            if self._found is None:
                embed = partial(self._vectorizer.vectors, bulk=True)
                self._found = await calibration_of(self._vectorizer.spec, embed)
            return self._found
