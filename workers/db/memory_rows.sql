-- fragment: memory_columns
-- What a record of a memory is made from; see records.py.
m.node_id as id, n.external_id, m.content, m.confidence, m.source, m.source_type, m.speaker, m.occurred_at, m.thread,
m.position, m.sector, m.sector_source, m.partition, m.verification, m.state, m.supersedes, m.superseded_by,
m.superseded_at, m.promoted_at, m.promoted_by, m.tags, m.project, m.metadata, m.created_by, m.created_at, m.updated_at,
u.accessed_at,
coalesce(u.helped, 0) as helped, coalesce(u.hindered, 0) as hindered

-- fragment: memory_tables
-- Where those columns come from.
memories m
join nodes n on n.tenant = m.tenant and n.id = m.node_id and n.partition = m.partition
left join memory_usage u on u.tenant = m.tenant and u.node_id = m.node_id

-- fragment: superseded
-- Whether a memory m is superseded; by what is not known any more once that was erased.
(m.superseded_by is not null or m.superseded_at is not null)

-- fragment: visible
-- The one visibility rule of memories m: %(partitions)s is a text array, %(include_superseded)s a boolean.
m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[]) and m.state <> 'archived'
and m.verification <> 'rejected' and (not {superseded} or %(include_superseded)s)

-- fragment: in_project
-- Whether a memory m is of the project %(project)s or of none; '*' for all projects, null for none.
(%(project)s::text = '*' or m.project is null or m.project = %(project)s)

-- fragment: tagged
-- Whether a memory m has all of these tags, in the words of their index, which serves memories_in_namespace alone.
tag_keys(m.tenant, m.tags) @> tag_keys(%(tenant)s, %(tags)s::text[])

-- fragment: clock
-- The namespace's clock.
coalesce((select c.active_hours from namespaces c where c.tenant = %(tenant)s), 0)

-- name: lock_memories
-- Lock memories against every other change, in the one order that all writers keep, and read what decides.
select
    n.id, m.partition, m.state, m.verification, m.supersedes, m.superseded_by, m.superseded_at,
    {superseded} as is_superseded, m.created_by
from nodes n
join memories m on m.tenant = n.tenant and m.node_id = n.id and m.partition = n.partition
where n.tenant = %(tenant)s and n.id = any(%(ids)s)
order by n.id
for no key update of n, m

-- name: memories_by_id
-- Memories of this namespace, whatever their state.
select {memory_columns}
from {memory_tables}
where m.tenant = %(tenant)s and n.id = any(%(ids)s)

-- name: memory_contents
-- What the ledger does not keep of memories: their contents and names, to make an answer complete again.
select n.id, n.external_id, m.content, coalesce(m.tags, '{}') as tags, m.project, m.metadata, m.speaker, m.thread, m.source_type
from nodes n
join memories m on m.tenant = n.tenant and m.node_id = n.id and m.partition = n.partition
where n.tenant = %(tenant)s and n.id = any(%(ids)s)

-- name: memory_beginnings
-- How the contents of memories in these partitions begin.
select m.node_id as id, left(m.content, %(beginning_chars)s) as beginning
from memories m
where m.tenant = %(tenant)s and m.node_id = any(%(ids)s) and m.partition = any(%(partitions)s::text[])
