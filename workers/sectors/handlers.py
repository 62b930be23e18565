"""Carries out the command that tells the sectors of memories."""

from engramq.schemas.commands import ClassifySectors, SectorsClassified
from engramq.schemas.ids import parse_uuid
from engramq.workers.handling import Context, handles_without_transaction
from engramq.workers.sectors.classifier import Classifier


@handles_without_transaction(ClassifySectors)
async def classify_sectors(command: ClassifySectors, context: Context) -> SectorsClassified:
    """Tell the sectors of memories that lack one."""
    ids = [known for one in command.memory_ids if (known := parse_uuid(one)) is not None]
    classifier = context.services[Classifier]
    return SectorsClassified(classified=await classifier.classify(context.envelope.namespace, ids, context.lease))
