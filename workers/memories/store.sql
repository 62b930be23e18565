-- name: insert_memory_node
-- Make the node of a memory; no row when its external id is taken.
insert into nodes (id, tenant, label, partition, external_id, owner)
values (%(id)s, %(tenant)s, 'Memory', %(partition)s, %(external_id)s, %(owner)s)
on conflict (tenant, external_id, owner) where external_id is not null do nothing
returning id

-- name: insert_memory
-- Make the memory of a new node. It is created now. One row of values, so that Citus sends it to one node as it is.
insert into memories as m (
    node_id, partition, owner, tenant, content, confidence, source, source_type, {each detail: $name}, sector, sector_source, standing_source,
    verification, state, tags, metadata, lexemes, embedding, model_id, created_by, active_hours
)
values (
    %(id)s, %(partition)s, %(owner)s, %(tenant)s, %(content)s, %(confidence)s, %(source)s, %(source_type)s,
    {each detail: %($name)s}, %(sector)s, %(sector_source)s, %(standing_source)s, %(verification)s, %(state)s, %(tags)s, %(metadata)s,
    memory_lexemes(%(tenant)s, %(content)s, %(speaker)s,
        day_told(%(content)s, %(occurred_at)s, %(occurred_offset)s)), %(embedding)s::halfvec,
    %(model_id)s, %(created_by)s, clock_of(%(tenant)s)
)
returning m.created_at, m.updated_at, case when m.expires_at <= m.created_at then 'archived' else m.state end as state

-- name: node_with_external_id
-- Whose an external id is, of those that are seen; one's own private one comes first.
select id, partition from nodes where tenant = %(tenant)s and external_id = %(external_id)s
order by owner nulls last
limit 1

-- name: corrected_private
-- The nearest private memory of an owner that a new one may correct; last, with no distance, one that has no vector to
-- compare.
select m.node_id as id, d.distance
from memories m
cross join lateral (
    select case when m.model_id = %(model_id)s then m.embedding::halfvec({dimensions}) <=> %(embedding)s::halfvec({dimensions}) end as distance
) d
where m.tenant = %(tenant)s and m.owner = %(owner)s::text and m.partition = %(partition)s and not {withdrawn}
    and (d.distance is null or d.distance <= %(farthest)s)
order by d.distance nulls last
limit 1
