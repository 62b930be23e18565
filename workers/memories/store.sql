-- name: insert_memory
-- Make a memory; no row when its external id is taken. It is created now.
with node as (
    insert into nodes (id, tenant, label, partition, external_id)
    values (%(id)s, %(tenant)s, 'Memory', %(partition)s, %(external_id)s)
    on conflict (tenant, external_id) where external_id is not null do nothing
    returning id, partition
)
insert into memories as m (
    node_id, partition, tenant, content, confidence, source, source_type, {each detail: $name}, sector, sector_source,
    verification, state, tags, metadata, lexemes, embedding, model_id, created_by, active_hours
)
select
    node.id, node.partition, %(tenant)s, %(content)s, %(confidence)s, %(source)s, %(source_type)s,
    {each detail: %($name)s}, %(sector)s, %(sector_source)s, %(verification)s, %(state)s, %(tags)s, %(metadata)s,
    lexemes_of(%(tenant)s, {own_language}, %(content)s, %(speaker)s, %(occurred_at)s), %(embedding)s::halfvec,
    %(model_id)s, %(created_by)s, {clock}
from node
returning m.created_at, m.updated_at, case when m.expires_at <= m.created_at then 'archived' else m.state end as state

-- name: node_with_external_id
-- Whose an external id is.
select id, partition from nodes where tenant = %(tenant)s and external_id = %(external_id)s
