-- fragment: changed_by
-- What a principal changed, by the entries a of the audit log, without what a purge took back.
a.tenant = %(tenant)s and a.actor = %(created_by)s
and (%(since)s::timestamptz is null or a.at >= %(since)s) and (%(until)s::timestamptz is null or a.at <= %(until)s)
and not exists (
    select from audit_log b
    where b.tenant = %(tenant)s and b.target_id = a.target_id and b.action = 'take_back'
        and b.new -> 'entries' @> to_jsonb(a.id)
)

-- fragment: anothers_row
-- A row x that a purge of the principal leaves: somebody else wrote it first, or the principal at another time.
(x.created_by = %(created_by)s and {in_time}) is not true

-- name: changed_count
-- How many edges, nodes and memories of others a principal changed, of those that are there.
with changed as (
    select distinct a.target_id as id
    from audit_log a
    where {changed_by} and a.action in ('update_edge', 'reclassify', 'update_node', 'update')
)
select
    (
        select count(*) from changed c join edges x on x.tenant = %(tenant)s and x.id = c.id
        where x.layer = 'knowledge' and {anothers_row}
    ) as edges,
    (
        select count(*) from changed c join nodes x on x.tenant = %(tenant)s and x.id = c.id
        where x.name is not null and {anothers_row}
    ) as nodes,
    (
        select count(*) from changed c join memories x on x.tenant = %(tenant)s and x.node_id = c.id
        where {anothers_row}
    ) as memories

-- name: changed_edges
-- The first edges of others that a principal changed.
select x.id from edges x
where x.tenant = %(tenant)s and x.layer = 'knowledge' and {anothers_row} and x.id in (
    select a.target_id from audit_log a where {changed_by} and a.action in ('update_edge', 'reclassify')
)
order by x.id
limit %(limit)s

-- name: changed_nodes
-- The first named nodes of others that a principal changed.
select x.id from nodes x
where x.tenant = %(tenant)s and x.name is not null and {anothers_row} and x.id in (
    select a.target_id from audit_log a where {changed_by} and a.action = 'update_node'
)
order by x.id
limit %(limit)s

-- name: changed_memories
-- The first memories of others of which a principal changed what is said about them.
select x.node_id as id from memories x
where x.tenant = %(tenant)s and {anothers_row} and x.node_id in (
    select a.target_id from audit_log a where {changed_by} and a.action = 'update'
)
order by x.node_id
limit %(limit)s

-- name: next_changes
-- The first entries from one on that tell what a principal changed of edges and nodes.
select a.id, a.target_id from audit_log a
where {changed_by} and a.action in ('update_edge', 'update_node') and a.id > %(after_entry)s
order by a.id
limit %(limit)s

-- name: lock_changed_edges
-- Edges of others, locked.
select x.id, x.weight, x.memory_sector, x.sector_source, x.properties, x.valid_from, x.valid_until
from edges x
where x.tenant = %(tenant)s and x.layer = 'knowledge' and x.id = any(%(ids)s) and {anothers_row}
order by x.id
for no key update

-- name: lock_changed_nodes
-- Named nodes of others, locked.
select x.id, x.properties
from nodes x
where x.tenant = %(tenant)s and x.name is not null and x.id = any(%(ids)s) and {anothers_row}
order by x.id
for no key update

-- name: changes_of
-- What a principal changed of locked edges and nodes, newest first. What two principals agreed to is not the one's alone.
select a.id, a.target_id, a.old, a.new
from audit_log a
where {changed_by} and a.action in ('update_edge', 'update_node') and a.target_id = any(%(ids)s)
    and not a.new ? 'proposal_id'
order by a.id desc

-- name: write_edge_back
-- Write a locked edge as it was. That is no use of it, so its clock stays.
update edges set weight = %(weight)s, properties = %(properties)s, memory_sector = %(memory_sector)s,
    valid_from = %(valid_from)s, valid_until = %(valid_until)s, updated_at = now(), updated_by = %(writer)s
where tenant = %(tenant)s and id = %(id)s
