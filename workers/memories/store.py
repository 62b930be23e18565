"""Store one memory: route and embed it, write it, and show what is similar."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands import (
    Activated,
    ClassifySectors,
    LinkActivated,
    Near,
    NewMemory,
    Reply,
    Stored,
    StoreMemory,
)
from engramq.schemas.commands.changes import DETAILS
from engramq.schemas.envelope import Envelope, seen_projects
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.fields import or_none
from engramq.schemas.ids import uuid7
from engramq.schemas.limits import MEMORIES_PER_FOLLOW_UP
from engramq.schemas.records import Memory
from engramq.schemas.setting_values import Retention, kept_for
from engramq.schemas.vocabulary import (
    EVERY_PROJECT,
    MemoryState,
    Partition,
    Scope,
    SectorSource,
    StandingSource,
    Visibility,
)
from engramq.workers.db.errors import Again
from engramq.workers.db.memory_rows import details_of, memory_record, similarity
from engramq.workers.db.privacy import Usual, own_partition, usual_visibility
from engramq.workers.db.queries import sized_sql
from engramq.workers.db.transaction import Jsonb, Row, Sent, Transaction
from engramq.workers.db.vectors import TEN_EF_SEARCH, Embedding, Sizes, send_nearest
from engramq.workers.db.viewers import Viewer
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.memories.contradictions import mark_pair
from engramq.workers.memories.grounds import known_grounds, refuse_trusted_on, untrusted_ground
from engramq.workers.memories.other_projects import PROJECT_BESIDE, describe_new_project, read_beside
from engramq.workers.memories.quotas import Allowance, ProcessQuotas
from engramq.workers.queue.contract import FollowUp, SessionState
from engramq.workers.runner import Context, handles
from engramq.workers.trust import VOUCHED_FOR, route

log = logging.getLogger(__name__)


NEAREST: Final = max(limits.SIMILAR_SHOWN, limits.SIMILARITY_LINKS)
# From this cosine on a private memory is taken for what a new one corrects, whatever else is more similar: a visit that
# was moved to another day has .6 to .9.
CORRECTED_FROM: Final = 0.6
_TO_SHARE: Final = 'If everybody may see it, call share_memory, or store it with visibility="shared".'
_KEPT_PRIVATE: Final = f"Private, as memory {{}} is, which is like it. {_TO_SHARE}"
_MAY_CORRECT: Final = f"Private, since nothing tells now whether it corrects a private memory of yours. {_TO_SHARE}"
_KEPT_ALREADY: Final = "Kept already, word for word, as {}: call forget_memory for one of the two."
_UNSET_YET: Final = (
    "sector_confidence", "supersedes", "superseded_by", "superseded_at", "promoted_at", "promoted_by", "accessed_at"
)  # fmt: skip
_OF_NEW: Final = {**dict.fromkeys(_UNSET_YET), "helped": 0.0, "hindered": 0.0}


@dataclass(frozen=True, slots=True)
class Draft:
    """A memory that is about to be written. Without an embedding it will be pending.

    `project`: what its caller sees, and where it goes: EVERY_PROJECT goes into none. `expires_at`: None, never.
    `owner`: whose it is if it is private, see viewers.py. `may_correct`: whether it may correct a private one of its
    author, who does not say who sees it.
    """

    memory: NewMemory
    partition: Partition
    created_by: str
    embedding: Embedding | None
    project: str | None = None
    expires_at: datetime | None = None
    owner: str | None = None
    may_correct: bool = False


async def embed_content(command: StoreMemory, context: Context) -> Embedding | None:
    """Return the vector of a memory; without one it will be pending. Raises as `route` does."""
    route(command, context.envelope.principal)  # a refusal waits for nothing
    embedding = await context.services[Vectorizer].try_embed(command.content)
    if embedding is None:
        log.warning("Stored without a vector", extra={"command_id": context.envelope.id})
    return embedding


async def remember_stored(reply: Reply, _command: StoreMemory, context: Context) -> None:
    """Let the session remember a stored memory, and have done what follows a store.

    A repeated command has it done too: the first try may have died before it could ask for it.
    """
    if isinstance(reply, Stored):
        context.session_state = SessionState(stored=reply.stored.id)
        if not context.follow_ups:
            context.follow_ups = _follow_ups(context.envelope.namespace, reply.stored)


@handles(StoreMemory, before=embed_content, after=remember_stored, by_keys=True)
async def store_memory(tx: Transaction, command: StoreMemory, context: Context, embedding: Embedding | None) -> Stored:
    """Write a memory, and show what is similar. Raises EngramqError with `external_id_taken`, `quota_exceeded`."""
    sizes = context.services[Sizes]
    shown_from, linked_from = context.settings.similar_threshold, context.settings.link_threshold
    # Trusted memories alone: nobody has asked for others.
    within: dict[str, Any] = {"farthest": 1.0 - min(shown_from, linked_from), "ef_search": TEN_EF_SEARCH}
    nearest: Sent | None = None
    if embedding is not None:  # before the insert, which the search would find
        nearest = await send_nearest(tx, sizes, embedding, Partition.TRUSTED, k=NEAREST, **within)
    draft = await draft_memory(tx, command, context, embedding)
    if context.services[ProcessQuotas].are_set:
        Allowance.of(tx, context).take(command.content, or_none(command.metadata) or {})
    columns, notices = columns_of_draft(draft), []
    if draft.may_correct and (private := await find_why_private(tx, draft, own_partition(context.envelope.principal))):
        columns["owner"] = tx.viewer.owner
        notices.append(private)
    project = columns["project"]
    others = None if project is None else await tx.send(PROJECT_BESIDE, project=project)
    vector = {"embedding": embedding and embedding.half, "model_id": embedding and embedding.model_id}
    node = await tx.send("insert_memory_node", **columns)
    if command.external_id is not UNSET and await node.fetchone() is None:
        raise await _external_id_taken(tx, command.external_id)
    inserted = await tx.send("insert_memory", **columns, **vector)
    made = await inserted.fetchone()
    assert made is not None  # whatever keeps a row out is an error
    read_again = {name: value.obj for name, value in columns.items() if isinstance(value, Jsonb)}
    stored = memory_record({**_OF_NEW, **columns, **read_again, **made})
    rows = [] if nearest is None else await nearest.fetchall()
    seen = seen_projects(draft.project)
    visible = rows if seen is None else [row for row in rows if row["project"] in seen]
    if embedding is not None and len(visible) < min(limits.SIMILAR_SHOWN, len(rows)) and len(rows) == NEAREST:
        # Other projects, which links do not mind, are nearer than what is to be shown. It finds the new one too.
        k = limits.SIMILAR_SHOWN + 1
        of_project = await send_nearest(tx, sizes, embedding, Partition.TRUSTED, k=k, project=draft.project, **within)
        visible = [row for row in await of_project.fetchall() if row["id"] != columns["id"]]
    linked: tuple[Near, ...] | None = None
    if stored.partition is Partition.TRUSTED:  # of others the neighbours were not looked for
        scored = [(str(row["id"]), similarity(row["distance"])) for row in rows]
        linked = tuple(Near(memory_id, score) for memory_id, score in scored if score >= linked_from)
    context.follow_ups = _follow_ups(context.envelope.namespace, stored, linked)
    similar, double = [], None
    for row in visible[: limits.SIMILAR_SHOWN]:
        if (score := similarity(row["distance"])) >= shown_from:
            memory = memory_record(row)
            memory.score = memory.similarity = score
            mark_pair(stored, memory)
            similar.append(memory)
            double = memory.id if double is None and memory.content == stored.content else double
    if double is not None:
        notices.append(_KEPT_ALREADY.format(double))
    if others is not None:
        notices.append(await _notice_of_project(tx, project, await others.fetchone() or {}, context))
    notice = " ".join(filter(None, notices))
    degraded = True if embedding is None else UNSET
    return Stored(stored=stored, similar_memories=similar, notice=notice or UNSET, degraded=degraded)


async def draft_memory(tx: Transaction, command: StoreMemory, context: Context, embedding: Embedding | None) -> Draft:
    """Return a memory as it will be written: where, for whom, how long.

    Raises as `route_draft` and `keep_draft_apart` do.
    """
    envelope, usual = context.envelope, Usual()
    if command.visibility is UNSET:
        usual = await usual_visibility(tx.look_up, envelope.principal, tx.viewer.owner)
    routed = route_draft(command, envelope, context.settings.retention, command.project, usual.said)
    routed = replace(routed, embedding=embedding, may_correct=usual.may_correct)
    return routed if command.evidence is UNSET else await keep_draft_apart(tx, routed)


def route_draft(
    memory: NewMemory,
    envelope: Envelope,
    retention: Sequence[Retention],
    project: str | UnsetType,
    otherwise: Visibility = Visibility.SHARED,
) -> Draft:
    """Return a new memory with its partition, its owner and its expiry: its own time goes before the rules.

    `otherwise`: who sees it if it does not say so. Raises as `route` does.
    """
    partition = route(memory, envelope.principal)
    expires_at = or_none(memory.expires_at)
    if expires_at is None and retention:
        period = kept_for(retention, or_none(memory.source_type), or_none(memory.tags) or ())
        expires_at = None if period is None else datetime.now(UTC) + period
    owner = None
    if (otherwise if memory.visibility is UNSET else memory.visibility) is Visibility.PRIVATE:
        owner = Viewer.of(envelope.principal).owner
        if owner is None:
            raise refuse(FaultCode.FORBIDDEN, "Nobody of that name can keep anything private.")
    return Draft(memory, partition, envelope.principal.name, None, envelope.project_named(project), expires_at, owner)


async def keep_draft_apart(tx: Transaction, draft: Draft) -> Draft:
    """Keep a draft apart that rests on an untrusted memory, unless its author vouches for it.

    Raises EngramqError with `untrusted_source` where it was to be trusted, and naming a memory that cannot be cited.
    """
    return on_grounds(draft, await known_grounds(tx, [draft.memory.evidence]))


def on_grounds(draft: Draft, known: Mapping[UUID, Row]) -> Draft:
    """Return a draft in the partition that what it rests on allows; raises as `keep_draft_apart` does."""
    ground = untrusted_ground(draft.memory.evidence, known)
    if ground is None or draft.memory.verification in VOUCHED_FOR:
        return draft
    if draft.memory.partition is Partition.TRUSTED:
        raise refuse_trusted_on(ground)
    return replace(draft, partition=Partition.UNTRUSTED)


def columns_of_draft(draft: Draft) -> dict[str, Any]:
    """Return the columns of a new memory without its vector, under a new id."""
    new = draft.memory
    return {
        "id": UUID(uuid7()),
        "external_id": or_none(new.external_id),
        "partition": draft.partition,
        "owner": draft.owner,
        "content": new.content,
        "confidence": new.confidence,
        "source": new.source,
        "source_type": or_none(new.source_type),
        **details_of({name: getattr(new, name) for name in DETAILS}),
        "sector": or_none(new.sector),
        "sector_source": None if new.sector is UNSET else SectorSource.MANUAL,
        "standing_source": None if new.standing is UNSET else StandingSource.GIVEN,
        "verification": new.verification,
        "state": MemoryState.PENDING if draft.embedding is None else MemoryState.ACTIVE,
        "tags": list(new.tags or ()) or None,
        "expires_at": draft.expires_at,
        "project": None if draft.project == EVERY_PROJECT else draft.project,
        "metadata": Jsonb({} if new.metadata is UNSET else new.metadata),
        "created_by": draft.created_by,
    }


async def find_why_private(tx: Transaction, draft: Draft, partition: Partition) -> str:
    """Return why a new memory that may correct a private one there is private too, "" where it is not.

    It is private if it resembles a private one, or if nobody can tell: a vector is missing, or the model cannot read
    the text. Else everybody would read the correction.
    """
    embedding = draft.embedding
    if embedding is None or embedding.is_blank:
        return _MAY_CORRECT
    query = sized_sql("corrected_private", embedding.dimensions)
    values = {"embedding": embedding.half, "model_id": embedding.model_id, "farthest": 1.0 - CORRECTED_FROM}
    row = await (await tx.send(query, owner=tx.viewer.owner, partition=partition, **values)).fetchone()
    if row is None:
        return ""
    return _MAY_CORRECT if row["distance"] is None else _KEPT_PRIVATE.format(row["id"])


async def _notice_of_project(tx: Transaction, project: str, row: Row, context: Context) -> str:
    """Say that a memory's project is new and has nearly the name of another; without the scope read no notice."""
    (answer,) = row.values()
    there = read_beside(answer)
    is_new = not there.is_known and there.has_others
    return await describe_new_project(tx, project) if is_new and Scope.READ in context.envelope.principal.scopes else ""


async def _external_id_taken(tx: Transaction, external_id: str) -> EngramqError:
    """Return the refusal that names the memory which has the external_id; raises Again when it has gone since."""
    row = await tx.row("node_with_external_id", external_id=external_id)
    if row is None:
        raise Again
    if row["partition"] == Partition.UNTRUSTED:  # which is not to be used in the place of what was to be stored
        error = f"The external_id belongs to the untrusted memory {row['id']}."
        recovery = "Give another external_id, or have that memory verified and promoted, or erased."
    else:
        error, recovery = f"The external_id belongs to memory {row['id']}.", None
    return refuse(FaultCode.EXTERNAL_ID_TAKEN, error, recovery=recovery, memory_id=str(row["id"]))


def _follow_ups(namespace: str, stored: Memory, near: tuple[Near, ...] | None = None) -> tuple[FollowUp, ...]:
    """Return the work after a store: its sector and wish, unless both were given, and similarity links."""
    if stored.state is not MemoryState.ACTIVE:
        return ()
    is_told = stored.sector_source is not None and stored.standing_source is not None
    sectors = [] if is_told else [stored.id]
    return finishing(namespace, sectors, [Activated(memory_id=stored.id, near=UNSET if near is None else near)])


def finishing(namespace: str, sectors: Sequence[str], links: Sequence[Activated]) -> tuple[FollowUp, ...]:
    """Return the commands that finish active memories: sectors and wishes for those that lack them, links."""
    size = MEMORIES_PER_FOLLOW_UP
    classify = (ClassifySectors(memory_ids=tuple(sectors[at : at + size])) for at in range(0, len(sectors), size))
    link = (LinkActivated(memories=tuple(links[at : at + size])) for at in range(0, len(links), size))
    return tuple(FollowUp(namespace, command) for command in (*classify, *link))
