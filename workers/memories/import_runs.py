"""How imports get on, by the ledger: nobody announces one, so batches that come soon after each other are one run."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from engramq.schemas import limits
from engramq.schemas.commands import Command, ImportBatch, ImportList, ImportMemories, ListImports
from engramq.schemas.envelope import Principal, PrincipalId
from engramq.schemas.ids import format_time
from engramq.schemas.records import ImportRun
from engramq.schemas.vocabulary import ReceiptStatus, Scope
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.runner import Context, handles

BATCHES: Final = sql("import_batches")
WAITING: Final = sql("waiting_for_vectors")

LOOKED_BACK_H: Final = 24
PAUSE: Final = timedelta(minutes=2)  # after which the next batch begins another run; a batch takes seconds
_COUNTS: Final = tuple(str(status) for status in ReceiptStatus)  # of each batch, by their columns


@dataclass(slots=True)
class _Run:
    """A run that is being put together, from its last batch back."""

    owner: PrincipalId
    last_at: datetime
    began_at: datetime
    rows: list[Row]


@handles(ListImports)
async def list_imports(tx: Transaction, _command: ListImports, context: Context) -> ImportList:
    """Tell how the newest imports get on."""
    principal = context.envelope.principal
    batches = await tx.rows(
        BATCHES,
        commands=[_tag(ImportBatch), _tag(ImportMemories)],
        hours=LOOKED_BACK_H,
        limit=limits.IMPORT_BATCHES_LOOKED_AT,
        **_whose(principal),
    )
    counted = await tx.row(WAITING)
    assert counted is not None
    cut = len(batches) == limits.IMPORT_BATCHES_LOOKED_AT
    return ImportList(
        runs=[_record(run, is_whole=not (cut and run.rows[-1] is batches[-1])) for run in runs_of(batches)],
        waiting_for_vectors=counted["waiting"],
        at=format_time(counted["at"]),
    )


def runs_of(batches: Iterable[Row]) -> list[_Run]:
    """Return the runs that batches make, both newest first."""
    runs: list[_Run] = []
    open_of: dict[PrincipalId, _Run] = {}
    for row in batches:
        owner = PrincipalId(row["principal"], row["principal_untrusted"])
        run = open_of.get(owner)
        if run is None or run.began_at - row["created_at"] > PAUSE:
            run = open_of[owner] = _Run(owner, row["created_at"], row["created_at"], [])
            runs.append(run)
        run.began_at = row["created_at"]
        run.rows.append(row)
    return runs


def _whose(principal: Principal) -> dict[str, str | bool | None]:
    """Return whose imports the principal may see: an admin everybody's."""
    all_of_them = Scope.ADMIN in principal.scopes
    return {"principal": None if all_of_them else principal.name, "principal_untrusted": principal.untrusted}


def _record(run: _Run, *, is_whole: bool) -> ImportRun:
    counts = {name: sum(row[name] for row in run.rows) for name in _COUNTS}
    return ImportRun(
        principal=run.owner.name,
        untrusted=run.owner.untrusted,
        began_at=format_time(run.began_at),
        last_at=format_time(run.last_at),
        batches=len(run.rows),
        is_whole=is_whole,
        **counts,
    )


def _tag(command: type[Command]) -> str:
    return str(command.__struct_config__.tag)
