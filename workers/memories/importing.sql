-- name: known_external_ids
-- Which of these external ids are taken.
select id, external_id from nodes
where tenant = %(tenant)s and external_id = any(%(external_ids)s)

-- fragment: known_columns
-- What of a memory decides whether a row changes it.
n.id, n.owner, m.partition, m.verification, m.created_by, {absence} as absence, m.content, m.metadata, m.project
from nodes n
join memories m on m.tenant = n.tenant and m.node_id = n.id and m.partition = n.partition

-- name: known_memories
-- The same of memories by their ids.
select {known_columns}
where n.tenant = %(tenant)s and n.id = any(%(ids)s)

-- name: with_external_ids
-- Which of these external ids are taken, and what an update of their memories must leave alone. Locked in the order
-- that all writers keep.
select n.external_id, {known_columns}
where n.tenant = %(tenant)s and n.external_id = any(%(external_ids)s)
order by n.id
for no key update of n, m

-- name: absent_memories
-- Which of these memories are not to be found, and why.
select m.node_id as id, {absence} as absence
from memories m
where m.tenant = %(tenant)s and m.node_id = any(%(ids)s) and {absence} is not null

-- name: insert_memories
-- Make many memories at once; a row whose external id is taken, or whose identity went in before, is left out.
with given as (
    select *
    from json_to_recordset(%(rows)s::json) as given (
        id uuid, partition text, owner text, external_id text, content text, confidence double precision, source text,
        source_type text, {each detail: $name $type}, sector text, sector_source text, standing_source text,
        verification text, state text, tags text[], metadata jsonb, embedding text, model_id smallint, load_id integer,
        identity bytea
    )
), gone_in as (
    insert into imported_rows (tenant, digest, memory_id, trusted)
    select %(tenant)s, identity, id, partition = 'trusted' from given where identity is not null
    on conflict (tenant, digest) do nothing
    returning memory_id
), node as (
    insert into nodes (id, tenant, label, partition, external_id, owner)
    select id, %(tenant)s, 'Memory', partition, external_id, owner from given
    where identity is null or id in (select memory_id from gone_in)
    on conflict (tenant, external_id, owner) where external_id is not null do nothing
    returning id, partition
)
insert into memories (
    node_id, partition, owner, tenant, content, confidence, source, source_type, {each detail: $name}, sector, sector_source,
    standing_source, verification, state, tags, metadata, lexemes, embedding, model_id, load_id, created_by, active_hours
)
select
    node.id, node.partition, given.owner, %(tenant)s, content, confidence, source, source_type, {each detail: $name}, sector,
    sector_source, standing_source, verification, state, tags, metadata, lexemes_of(%(tenant)s, {own_language}, content, speaker, day_told(content, occurred_at, occurred_offset)),
    embedding::halfvec, model_id, load_id, %(created_by)s, {clock}
from node
join given on given.id = node.id
returning node_id as id

-- name: replace_memory
-- Write what an import's row names; what it does not name is null and stays as it is. Partition, verification and a
-- manual sector stay in any case. An automatic sector belongs to a content, and so do similarity links: of another they are to be made
-- again.
with moment as materialized (select now() as now)
update memories m set
    content = %(content)s,
    confidence = coalesce(%(confidence)s, m.confidence),
    source = coalesce(%(source)s, m.source),
    source_type = coalesce(%(source_type)s, m.source_type),
    {each detail: $name = coalesce(%($name)s, m.$name)},
    tags = nullif(coalesce(%(tags)s, m.tags), '{}'),
    metadata = m.metadata || %(metadata)s,
    sector = case when m.sector_source = 'manual' then m.sector
        when m.content = %(content)s then coalesce(%(sector)s, m.sector) else %(sector)s end,
    sector_source = case when m.sector_source = 'manual' then m.sector_source
        when m.content = %(content)s then coalesce(%(sector_source)s, m.sector_source) else %(sector_source)s end,
    sector_confidence = case when m.content = %(content)s and %(sector)s::text is null then m.sector_confidence end,
    standing_source = case when %(standing)s::boolean is not null then 'given'
        when m.content = %(content)s or m.standing_source = 'given' then m.standing_source end,
    state = case
        when m.expires_at <= moment.now then 'archived'
        when m.state = 'archived' or %(keep_vector)s then m.state
        else %(state)s end,
    embedding = case when %(keep_vector)s then m.embedding else %(embedding)s::halfvec end,
    model_id = case when %(keep_vector)s then m.model_id else %(model_id)s end,
    pieces = case when %(keep_vector)s and m.content = %(content)s then m.pieces end,
    lexemes = lexemes_of(
        m.tenant, {own_language}, %(content)s, coalesce(%(speaker)s, m.speaker),
        day_told(%(content)s, coalesce(%(occurred_at)s, m.occurred_at), coalesce(%(occurred_offset)s, m.occurred_offset))),
    links_made_at = case when m.content = %(content)s then m.links_made_at end,
    updated_at = now()
from moment
where m.tenant = %(tenant)s and m.node_id = %(id)s
returning m.node_id

-- name: forget_similarity_links
-- Remove the links that tell what a memory's former content resembled, except those that an outcome has counted.
delete from edges e
where e.tenant = %(tenant)s and e.layer = 'association' and e.origin = 'similarity' and e.relation = 'similar'
    and e.reinforcement_count = 0 and (e.source_id = %(id)s or e.target_id = %(id)s)

-- name: imported_rows
-- What became of rows that went in before. Of a memory that was erased the partition is the one that it went into, unless
-- it was promoted since.
select r.digest, r.memory_id, case when m.node_id is null then 'erased' else {absence} end as absence,
    case when n.partition is not null then n.partition
        when r.trusted or exists (
            select from audit_log a
            where a.tenant = %(tenant)s and a.target_id = r.memory_id and a.action = 'promote'
        ) then 'trusted'
        else 'untrusted' end as partition
from imported_rows r
left join nodes n on n.tenant = r.tenant and n.id = r.memory_id
left join memories m on m.tenant = n.tenant and m.node_id = n.id and m.partition = n.partition
where r.tenant = %(tenant)s and r.digest = any(%(digests)s::bytea[])

-- name: forget_imported_rows
-- Let rows go in again.
delete from imported_rows where tenant = %(tenant)s and digest = any(%(digests)s::bytea[])

-- name: import_batches
-- The newest batches of imports, of one principal or of all, each with the counts of its answer; a refused one has none.
select l.principal, l.principal_untrusted, l.created_at,
    coalesce((l.answer #>> '{reply,stored}')::bigint, 0) as stored,
    coalesce((l.answer #>> '{reply,updated}')::bigint, 0) as updated,
    coalesce((l.answer #>> '{reply,skipped}')::bigint, 0) as skipped,
    coalesce((l.answer #>> '{reply,rejected}')::bigint, 0) as rejected
from ledger l
where l.tenant = %(tenant)s and l.command = any(%(commands)s::text[])
    and l.created_at > now() - make_interval(hours => %(hours)s)
    and (%(principal)s::text is null
        or (l.principal = %(principal)s and l.principal_untrusted = %(principal_untrusted)s))
order by l.created_at desc, l.command_id desc
limit %(limit)s

-- name: waiting_for_vectors
-- How many memories of the namespace have no vector yet, and what time it is.
select (
    select count(*) from memories m where m.tenant = %(tenant)s and m.state = 'pending'
) as waiting, now() as at
