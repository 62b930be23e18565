"""A question as the models read it whose vectors it is compared with: the one that runs, and former ones.

The cosines of a former model become those that are as good a sign by the curve of the one that runs, so that one
ranking holds for all candidates.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from engramq.workers.db.vectors import Embedding
from engramq.workers.embedders.calibration import Calibration
from engramq.workers.embedders.other_models import Reading
from engramq.workers.search.ranking import Candidates

Measured = Callable[[Embedding | None], Awaitable[Candidates]]


@dataclass(frozen=True, slots=True)
class QuestionVectors:
    """The embedding by the model that runs, None while it is away; then former ones are left out too.

    `curve`: of the model that runs; None: not known yet, and cosines stay as they are.
    """

    embedding: Embedding | None
    former: Sequence[Reading] = field(default=())
    curve: Calibration | None = None

    async def by_all(self, measured: Measured) -> Candidates:
        """Return what is measured by each embedding as one; those of former models come later."""
        found = await measured(self.embedding)
        for one in self.former:
            found = found.completed(self._converted(await measured(one.embeddings[0]), one.curve))
        return found

    def _converted(self, candidates: Candidates, curve: Calibration) -> Candidates:
        own = self.curve
        if own is None:
            return candidates
        similarity, meaning = (
            [None if one is None else own.cosine_of(one, curve) for one in cosines]
            for cosines in (candidates.similarity, candidates.meaning)
        )
        return msgspec.structs.replace(candidates, similarity=similarity, meaning=meaning)
