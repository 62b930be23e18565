-- fragment: deletion_entries
-- The ids of what is deleted, each with the id and the time of its entry in the audit log.
unnest(%(ids)s::uuid[], %(deletions)s::bigint[], %(times)s::timestamptz[]) as n (id, deletion, deleted_at)

-- name: delete_knowledge_edges
-- Remove locked edges, and keep what they were.
with kept as materialized (
    select e.id, to_jsonb(e) - 'tenant' as record, e.created_by, n.deletion, n.deleted_at
    from edges e
    join {deletion_entries} on n.id = e.id
    where e.tenant = %(tenant)s and e.layer = 'knowledge'
    for update of e
), gone as (
    delete from edges e using kept where e.tenant = %(tenant)s and e.id = kept.id
)
insert into deleted_graph (tenant, deletion, id, is_node, record, created_by, deleted_at)
select %(tenant)s, deletion, id, false, record, created_by, deleted_at from kept
returning id

-- name: delete_named_nodes
-- Remove locked nodes that have no edges any more, and keep what they were.
with kept as materialized (
    select e.id, to_jsonb(e) - 'tenant' as record, e.created_by, n.deletion, n.deleted_at
    from nodes e
    join {deletion_entries} on n.id = e.id
    where e.tenant = %(tenant)s and e.name is not null
    for update of e
), gone as (
    delete from nodes e using kept where e.tenant = %(tenant)s and e.id = kept.id
)
insert into deleted_graph (tenant, deletion, id, is_node, record, created_by, deleted_at)
select %(tenant)s, deletion, id, true, record, created_by, deleted_at from kept
returning id

-- fragment: kept
-- What is kept of a deletion, for as long as it can be undone.
d.tenant = %(tenant)s and d.deletion = %(deletion)s and d.deleted_at > now() - make_interval(days => %(days)s)

-- fragment: row_again
-- A kept row d with its tenant again.
d.record || jsonb_build_object('tenant', %(tenant)s::integer)

-- name: lock_deleted
-- What is left to bring back of a deletion, locked: its node, null where there is none, and how many edges.
select
    count(*) filter (where not k.is_node) as edges,
    (array_agg(k.id) filter (where k.is_node))[1] as node_id,
    max(k.record ->> 'label') filter (where k.is_node) as label,
    max(k.record ->> 'name') filter (where k.is_node) as name
from (
    select d.id, d.is_node, d.record from deleted_graph d where {kept} order by d.id for update
) as k

-- name: deletion_entry
-- What the audit log says of a deletion: whether anything of it has come back, with how many edges of a node, and
-- whether a purge has erased the edge or node, at once or later.
select a.action, a.target_id, a.old, back.restored, back.edges_restored,
    a.new ? 'erased' or exists (
        select from audit_log r
        where r.tenant = %(tenant)s and r.target_id = a.target_id and r.action = 'erase_deleted'
            and (r.old ->> 'deletion')::bigint = a.id
    ) as purged
from audit_log a
cross join lateral (
    select count(*) > 0 as restored, coalesce(sum((r.new ->> 'edges')::bigint), 0)::bigint as edges_restored
    from audit_log r
    where r.tenant = %(tenant)s and r.target_id = a.target_id and r.action in ('restore_edge', 'restore_node')
        and (r.new ->> 'deletion')::bigint = a.id
) back
where a.tenant = %(tenant)s and a.id = %(deletion)s and a.action in ('delete_edge', 'delete_node')

-- name: restore_node
-- Bring a deleted node back; no row when its label and name are there again.
with back as (
    insert into nodes
    select n.*
    from deleted_graph d
    cross join lateral jsonb_populate_record(null::nodes, {row_again}) as n
    where {kept} and d.is_node
    on conflict do nothing
    returning id
)
delete from deleted_graph d
using back
where d.tenant = %(tenant)s and d.deletion = %(deletion)s and d.id = back.id
returning d.id

-- name: lock_ends_of_deleted
-- Keep the ends of those deleted edges from being deleted from now on.
select n.id
from nodes n
where n.tenant = %(tenant)s and n.name is not null and n.id in (
    select unnest(array[(d.record ->> 'source_id')::uuid, (d.record ->> 'target_id')::uuid])
    from deleted_graph d
    where {kept} and not d.is_node
)
order by n.id
for key share

-- name: restore_edges
-- Bring those deleted edges back whose ends are there and whose like is not.
with wanted as materialized (
    select e.*
    from deleted_graph d
    cross join lateral jsonb_populate_record(null::edges, {row_again}) as e
    where {kept} and not d.is_node
), ends as materialized (
    select n.id
    from nodes n
    where n.tenant = %(tenant)s and n.name is not null
        and n.id in (select w.source_id from wanted w union select w.target_id from wanted w)
), back as (
    insert into edges
    select w.*
    from wanted w
    where w.source_id in (select id from ends) and w.target_id in (select id from ends)
    on conflict do nothing
    returning id
), gone as (
    delete from deleted_graph d
    using back
    where d.tenant = %(tenant)s and d.deletion = %(deletion)s and d.id = back.id
)
select count(*) as restored from back

-- name: deleted_edges
-- The edges that are left of a deletion.
select d.id, (d.record ->> 'source_id')::uuid as source_id, (d.record ->> 'target_id')::uuid as target_id,
    d.record ->> 'relation' as relation
from deleted_graph d
where {kept} and not d.is_node
order by d.id
limit %(limit)s

-- name: nodes_and_deleted
-- Named nodes by their ids; of one that was deleted also the deletion.
select n.id, n.label, n.name, null::bigint as deletion
from nodes n
where n.tenant = %(tenant)s and n.name is not null and n.id = any(%(ids)s)
union all
select d.id, d.record ->> 'label', d.record ->> 'name', d.deletion
from deleted_graph d
where d.tenant = %(tenant)s and d.is_node and d.id = any(%(ids)s)
    and d.deleted_at > now() - make_interval(days => %(days)s)

-- name: deletions
-- The newest deletions that can be undone, and what is left of each to bring back.
select a.id, a.actor, a.action, a.target_id as deleted_id, a.reason, k.deleted_at, k.edges, k.label, k.name,
    (e.record ->> 'source_id')::uuid as source_id, (e.record ->> 'target_id')::uuid as target_id,
    e.record ->> 'relation' as relation
from (
    select d.deletion, max(d.deleted_at) as deleted_at, count(*) filter (where not d.is_node) as edges,
        max(d.record ->> 'label') filter (where d.is_node) as label,
        max(d.record ->> 'name') filter (where d.is_node) as name
    from deleted_graph d
    where d.tenant = %(tenant)s and d.deleted_at > now() - make_interval(days => %(days)s)
    group by d.deletion
    order by d.deletion desc
    limit %(limit)s
) as k
join audit_log a on a.tenant = %(tenant)s and a.id = k.deletion
left join deleted_graph e on e.tenant = %(tenant)s and e.deletion = k.deletion and e.id = a.target_id and not e.is_node
order by a.id desc

-- name: trim_deleted
-- Forget what was deleted so long ago.
with old as (
    select deletion, id from deleted_graph
    where tenant = %(tenant)s and deleted_at <= now() - make_interval(days => %(days)s)
    limit %(limit)s
), gone as (
    delete from deleted_graph d using old
    where d.tenant = %(tenant)s and d.deletion = old.deletion and d.id = old.id
    returning 1
)
select count(*) as trimmed from gone
