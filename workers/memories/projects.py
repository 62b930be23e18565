"""Rename a project, or merge it into another: everything that carries its name carries the new one.

Memories are moved a few at a time, each few in a transaction of their own, since a large project's would keep others
waiting for its locks; another try goes on with what is left. The command's own transaction does the tokens and sums up.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from engramq.schemas.commands import ProjectRenamed, RenameProject
from engramq.schemas.faults import invalid
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.db import audit, namespaces
from engramq.workers.db.memory_rows import lock
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.runner import Context, handles_gradually
from engramq.workers.trust import require_admin

RENAMED_AT_ONCE: Final = 100  # memories of one transaction, whose locks others wait for


async def rename_memories(command: RenameProject, context: Context) -> AsyncIterator[None]:
    """Put the memories that are in the project by now into the other one.

    Raises EngramqError where that has memories, and they are not to be merged.
    """
    command.check()
    require_admin(context.envelope.principal, "Renaming a project")
    (there,) = await context.store.read(  # as the caller sees it: what is not shown refuses nothing
        context.envelope.namespace,
        lambda tx: tx.rows("others_in_project", project=command.new_name, command_id=UUID(context.envelope.id)),
    )
    if there["others"] and not command.merge:
        raise invalid(
            "new_name",
            "There are memories in the project of the new name already.",
            "engramq projects merge puts these beside them.",
        )
    until: datetime = there["now"]  # else somebody who keeps storing would keep this going
    after = UUID(int=0)
    page: dict[str, Any] = {"project": command.old_name, "until": until, "limit": RENAMED_AT_ONCE}
    whole = context.store.seen_by(EVERYTHING)  # everybody's are renamed
    while ids := await whole.read(context.envelope.namespace, partial(_next_ids, **page, after_id=after)):
        rename = partial(rename_few, command=command, context=context, ids=ids)
        await whole.write(context.envelope.namespace, rename)
        after = ids[-1]
        yield


async def rename_few(tx: Transaction, *, command: RenameProject, context: Context, ids: Sequence[UUID]) -> None:
    """Put those of these memories that are still in the project into the other one, and note each in the audit log."""
    tx.lease, tx.writer = context.lease, context.envelope.principal.name
    await namespaces.note(tx)
    await lock(tx, *ids)
    for row in await tx.rows("rename_project_of", ids=list(ids), project=command.old_name, new_name=command.new_name):
        old = {"project": command.old_name}  # what tells a merge apart again; blanked once the memory is erased
        await audit.record(tx, context.envelope, AuditAction.UPDATE, row["id"], old=old, new={"changed": ["project"]})


@handles_gradually(RenameProject, rename_memories)
async def rename_project(tx: Transaction, command: RenameProject, context: Context) -> ProjectRenamed:
    """Have the project's tokens name the other one too, and sum up what all tries have renamed, in one audit entry.

    Memories that the caller does not see do not count: a reply to a guessed name says nothing of them.
    """
    tokens = await tx.rows("rename_project_of_tokens", project=command.old_name, new_name=command.new_name)
    row = await tx.row("renamed_by", command_id=UUID(context.envelope.id))
    assert row is not None
    count = int(row["memories"])
    # Names are what authors gave: only digests, to compare with, as of a purge.
    old, new = ({"project_sha256": sha256(name.encode()).hexdigest()} for name in (command.old_name, command.new_name))
    counts = {"memories": count, "tokens": len(tokens)}
    await audit.record(tx, context.envelope, AuditAction.RENAME_PROJECT, None, old=old, new={**new, **counts})
    return ProjectRenamed(project=command.new_name, memory_count=count, token_count=len(tokens))


async def _next_ids(tx: Transaction, **page: Any) -> list[UUID]:
    return [row["id"] for row in await tx.rows("of_project", **page)]
