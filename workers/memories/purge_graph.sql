-- fragment: in_time
-- Whether what was written at `created_at` of x counts for a purge.
(%(since)s::timestamptz is null or x.created_at >= %(since)s)
and (%(until)s::timestamptz is null or x.created_at <= %(until)s)

-- fragment: authored_edge
-- A knowledge edge x that a principal wrote.
x.tenant = %(tenant)s and x.layer = 'knowledge' and x.created_by = %(created_by)s and {in_time}

-- fragment: purged_end
-- Whether an end of a link x is a memory that the purge takes itself: the link goes with it.
exists (select from memories m where {purged} and m.node_id in (x.source_id, x.target_id))

-- fragment: authored_link
-- A link x that a principal made between memories that stay. Links of supersessions are undone by restoring.
x.tenant = %(tenant)s and x.layer = 'association' and x.relation <> 'supersedes'
and x.created_by = %(created_by)s and {in_time} and not {purged_end}

-- fragment: authored_wait
-- A link x that a principal asked for and that waits for an end which is pending. One at a memory that is gone is dropped
-- by the sweep.
x.tenant = %(tenant)s and x.principal ->> 'name' = %(created_by)s and {in_time} and not {purged_end}
and (select count(*) from memories m where m.tenant = %(tenant)s and m.node_id in (x.source_id, x.target_id)) = 2

-- fragment: authored_node
-- A named node x that a principal wrote first.
x.tenant = %(tenant)s and x.name is not null and x.created_by = %(created_by)s and {in_time}

-- fragment: authored_deleted
-- An edge or named node d that a principal wrote and that was deleted, but is kept to be restored.
d.tenant = %(tenant)s and d.created_by = %(created_by)s
and exists (select from (select (d.record ->> 'created_at')::timestamptz as created_at) x where {in_time})

-- fragment: proposed
-- A proposal x that a principal made: its reason and its values are that principal's texts.
x.tenant = %(tenant)s and x.proposed_by = %(created_by)s and {in_time}

-- fragment: hung_on
-- Whether an edge that the purge leaves hangs on a node n.
exists (
    select from edges x
    where x.tenant = %(tenant)s and (x.source_id = n.id or x.target_id = n.id) and ({authored_edge}) is not true
)

-- fragment: anothers_property
-- Whether somebody else wrote the property p of a principal's node n last. Nothing tells of the node's first ones.
(%(created_by)s <> (
    select a.actor from audit_log a
    where a.tenant = %(tenant)s and a.target_id = n.id and a.action = 'update_node' and a.new -> 'properties' ? p.key
    order by a.id desc
    limit 1
)) is true

-- fragment: constitutive
-- Whether the properties of an edge x make it constitutive; see graph/edge_rules.py.
(x.properties -> 'is_constitutive' = 'true' or x.properties -> 'edge_type' = '"constitutive"')

-- name: authored_count
-- How much of the graph a purge of a principal takes, and how many of its nodes it leaves to the edges of others.
select
    (select count(*) from edges x where {authored_edge}) as edges,
    (select count(*) from edges x where {authored_edge} and {constitutive}) as constitutive,
    (select count(*) from edges x where {authored_link})
        + (select count(*) from deferred_links x where {authored_wait}) as links,
    (select count(*) from deleted_graph d where {authored_deleted}) as deleted,
    (
        select count(*) from proposals p
        where p.tenant = %(tenant)s and (
            exists (select from proposals x where {proposed} and x.id = p.id)
            or exists (select from edges x where {authored_edge} and x.id = any(p.covers))
            or exists (select from deleted_graph d where {authored_deleted} and d.id = any(p.covers))
        )
    ) as proposals,
    count(*) filter (where not n.hung_on) as nodes,
    count(*) filter (where n.hung_on) as kept,
    count(*) filter (where n.hung_on and n.emptied) as emptied
from (
    select {hung_on} as hung_on,
        exists (select from jsonb_each(n.properties) as p where not {anothers_property}) as emptied
    from (select x.id, x.properties from nodes x where {authored_node}) n
) n

-- name: authored_edges
-- The first knowledge edges from an id on that a purge takes.
select x.id from edges x
where {authored_edge} and x.id > %(after_id)s
order by x.id
limit %(limit)s

-- name: authored_links
-- The first links from an id on that a purge takes, made ones and those that wait.
select x.id, x.source_id, x.target_id from edges x
where {authored_link} and x.id > %(after_id)s
union all
select x.id, x.source_id, x.target_id from deferred_links x
where {authored_wait} and x.id > %(after_id)s
order by id
limit %(limit)s

-- name: authored_nodes
-- The first named nodes from an id on that a principal wrote; only those that edges of others hold, or only the others.
select n.id
from (select x.id from nodes x where {authored_node} and x.id > %(after_id)s) n
where {hung_on} = %(hung_on)s
order by n.id
limit %(limit)s

-- name: authored_deletions
-- The first kept edges and nodes from an id on that a purge takes.
select d.id from deleted_graph d
where {authored_deleted} and d.id > %(after_id)s
order by d.id
limit %(limit)s

-- name: authored_proposals
-- The first proposals from an id on that a principal made.
select x.id from proposals x
where {proposed} and x.id > %(after_id)s
order by x.id
limit %(limit)s

-- name: erase_authored_edges
-- Remove those of these edges that the purge still takes.
delete from edges x
where {authored_edge} and x.id = any(%(ids)s)
returning x.id, x.source_id, x.target_id, {constitutive} as constitutive

-- name: erase_authored_links
-- Remove those of these links, whose ends are locked, that the purge still takes.
delete from edges x
where {authored_link} and x.id = any(%(ids)s)
returning x.id, x.source_id, x.target_id

-- name: lock_authored_nodes
-- Lock nodes that the purge takes: nobody can hang an edge on them from now on.
select x.id from nodes x
where {authored_node} and x.id = any(%(ids)s)
order by x.id
for update

-- name: erase_authored_nodes
-- Remove those of these locked nodes that no edge hangs on.
delete from nodes n
where n.tenant = %(tenant)s and n.name is not null and n.id = any(%(ids)s)
    and not exists (select from edges e where e.tenant = %(tenant)s and (e.source_id = n.id or e.target_id = n.id))
returning n.id

-- name: authored_nodes_left
-- The first named nodes from an id on that a principal wrote, whatever hangs on them.
select x.id from nodes x
where {authored_node} and x.id > %(after_id)s
order by x.id
limit %(limit)s

-- name: empty_authored_nodes
-- Take the properties of these locked nodes away, but those that others wrote last; how many went of each.
with seen as (
    select n.id, n.properties as before, coalesce((
        select jsonb_object_agg(p.key, p.value)
        from jsonb_each(n.properties) as p
        where {anothers_property}
    ), '{}') as after
    from nodes n
    where n.tenant = %(tenant)s and n.id = any(%(ids)s)
)
update nodes n set properties = s.after, updated_at = now(), updated_by = %(writer)s
from seen s
where n.tenant = %(tenant)s and n.id = s.id and s.after <> s.before
returning n.id, (
    select count(*) from jsonb_object_keys(s.before) as k where not s.after ? k
) as property_count

-- name: lock_authored_edges
-- Lock knowledge edges that the purge takes, as they are now.
select x.id, x.source_id, x.target_id, x.relation, x.weight, x.memory_sector, x.sector_source, x.valid_from,
    x.valid_until, {constitutive} as constitutive
from edges x
where {authored_edge} and x.id = any(%(ids)s)
order by x.id
for update

-- name: bare_nodes
-- Those of these locked nodes that no edge hangs on.
select n.id, n.label from nodes n
where n.tenant = %(tenant)s and n.name is not null and n.id = any(%(ids)s)
    and not exists (select from edges e where e.tenant = %(tenant)s and (e.source_id = n.id or e.target_id = n.id))
order by n.id

-- name: erase_deletions
-- Remove those of these kept edges and nodes that the purge still takes.
delete from deleted_graph d
where {authored_deleted} and d.id = any(%(ids)s)
returning d.id, d.deletion, d.is_node

-- name: erase_proposals
-- Remove those of these proposals that the purge still takes, with their approvals.
delete from proposals x
where {proposed} and x.id = any(%(ids)s)
returning x.target_id as id, x.id as proposal_id

-- name: erase_proposals_about
-- Remove all proposals about edges that were erased.
delete from proposals p
where p.tenant = %(tenant)s and p.covers && %(ids)s::uuid[]
returning p.target_id as id, p.id as proposal_id
