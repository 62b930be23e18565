"""An edge gets its sector by hand: under its row's lock, with consent where it is constitutive, and audited."""

from typing import Final

from msgspec import UNSET

from engramq.schemas.commands import Reclassified, ReclassifySector
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import missing
from engramq.schemas.ids import format_time
from engramq.schemas.records import EdgeCandidate
from engramq.schemas.vocabulary import AuditAction, ReclassifyStatus, Sector, Thing
from engramq.workers.db import audit
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.graph.consent import Waiting, reclassification_consent
from engramq.workers.graph.edge_rules import is_constitutive, sector_named, wrong_sector
from engramq.workers.graph.edges import sector_of_row

_NOT_AMONG: Final = "Leave edge_id out: then these names say which edge is meant, or the reply says which can be."

LOCK: Final = sql("lock_edges_between_names")
RECLASSIFY: Final = sql("reclassify_edge")


async def reclassify(tx: Transaction, envelope: Envelope, command: ReclassifySector) -> Reclassified:
    """Carry out a reclassification, or say why not."""
    sector = sector_named(command.new_sector)
    if sector is None:
        return Reclassified(status=ReclassifyStatus.INVALID_SECTOR, error=wrong_sector(command.new_sector))
    rows = await tx.rows(
        LOCK,
        source_name=command.source_name,
        target_name=command.target_name,
        relation=command.relation,
        source_label=None,
        target_label=None,
    )
    if command.edge_id is not UNSET:
        rows = [row for row in rows if str(row["id"]) == command.edge_id.lower()]
    if not rows:
        triple = f"{command.source_name} --{command.relation}--> {command.target_name}"
        absent = missing(Thing.EDGE, "" if command.edge_id is UNSET else _NOT_AMONG)
        return Reclassified(status=ReclassifyStatus.NOT_FOUND, error=f"Edge not found: {triple}", **absent)
    if len(rows) > 1:
        return Reclassified(
            status=ReclassifyStatus.AMBIGUOUS,
            error="Multiple edges found",
            edge_ids=[str(row["id"]) for row in rows],
            candidates=[_candidate(row) for row in rows],
        )
    return await _reclassify_one(tx, envelope, rows[0], sector)


def actor_of(envelope: Envelope, command: ReclassifySector) -> str:
    """Return in whose name an edge is reclassified; the audit holds the principal in any case."""
    return envelope.principal.name if command.actor is UNSET else command.actor


async def _reclassify_one(tx: Transaction, envelope: Envelope, row: Row, sector: Sector) -> Reclassified:
    command = envelope.command
    assert isinstance(command, ReclassifySector)
    edge_id, actor, old = row["id"], actor_of(envelope, command), sector_of_row(row)
    noted: dict[str, str] = {}
    if is_constitutive(row["properties"]):
        consent = await reclassification_consent(tx, envelope, edge_id, sector)
        if isinstance(consent, Waiting):
            return _consent_required(str(edge_id), consent)
        noted["proposal_id"] = str(consent)
    if actor != envelope.principal.name:
        noted["actor"] = actor
    await tx.send(RECLASSIFY, id=edge_id, from_sector=old, to_sector=sector, actor=actor)
    new = {"memory_sector": sector, **noted}
    await audit.record(tx, envelope, AuditAction.RECLASSIFY, edge_id, old={"memory_sector": old}, new=new)
    return Reclassified(status=ReclassifyStatus.SUCCESS, edge_id=str(edge_id), old_sector=old, new_sector=sector)


def _candidate(row: Row) -> EdgeCandidate:
    return EdgeCandidate(
        edge_id=str(row["id"]),
        source_label=row["source_label"],
        target_label=row["target_label"],
        memory_sector=sector_of_row(row),
    )


def _consent_required(edge_id: str, waiting: Waiting) -> Reclassified:
    return Reclassified(
        status=ReclassifyStatus.CONSENT_REQUIRED,
        error=f"Edge {edge_id} is constitutive: two different principals must approve its reclassification.",
        edge_id=edge_id,
        proposal_id=None if waiting.proposal_id is None else str(waiting.proposal_id),
        approved_by=list(waiting.approved_by),
        expires_at=None if waiting.expires_at is None else format_time(waiting.expires_at),
        hint=waiting.hint,
    )
