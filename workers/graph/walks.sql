-- name: neighbor_step
-- One step of a walk over neighbours, at most %(limit)s edges.
select f.id as near, e.far, e.id, e.relation, e.weight, e.memory_sector, e.last_active_hours, e.valid_from,
    e.valid_until, e.outgoing
from {step}
limit %(limit)s

-- name: edges_between
-- Of pairs of nodes that a walk went between, the edges it could have gone by, heaviest first, at most %(limit)s of each
-- pair, and how many there are.
select pair.far, e.id, e.relation, e.weight, e.memory_sector, e.valid_from, e.valid_until, e.outgoing, e.total
from unnest(%(nears)s::uuid[], %(fars)s::uuid[]) as pair (near, far)
cross join lateral (
    select found.*, count(*) over () as total
    from (
        select e.id, e.relation, e.weight, e.memory_sector, e.valid_from, e.valid_until, true as outgoing
        from edges e
        where %(outgoing)s::boolean and e.layer = 'knowledge' and e.tenant = %(tenant)s
            and e.source_id = pair.near and e.target_id = pair.far
            and (%(relation)s::text is null or e.relation = %(relation)s)
            and (%(sectors)s::text[] is null or coalesce(e.memory_sector, 'semantic') = any(%(sectors)s::text[]))
            and {edge_holds}
        union all
        select e.id, e.relation, e.weight, e.memory_sector, e.valid_from, e.valid_until, false as outgoing
        from edges e
        where %(incoming)s::boolean and e.layer = 'knowledge' and e.tenant = %(tenant)s
            and e.source_id = pair.far and e.target_id = pair.near
            and (%(relation)s::text is null or e.relation = %(relation)s)
            and (%(sectors)s::text[] is null or coalesce(e.memory_sector, 'semantic') = any(%(sectors)s::text[]))
            and {edge_holds}
    ) as found
    order by found.weight desc, found.id
    limit %(limit)s
) as e
order by pair.far, e.weight desc, e.id

-- name: path_step
-- One step of the search for a path: no more than it needs, since it may be many rows.
select f.id as near, e.far, e.id, e.weight
from {step}
limit %(limit)s

-- name: path_edges
-- The edges of a path that was found.
select {edge_columns}
from edges e
where e.tenant = %(tenant)s and e.layer = 'knowledge' and e.id = any(%(ids)s)

-- name: active_hours
-- The namespace's clock, which runs only while a session is in use.
select active_hours from namespaces where tenant = %(tenant)s

-- name: node_names
-- Names of nodes.
select n.id, n.label, n.name
from nodes n
where n.tenant = %(tenant)s and n.partition = 'trusted' and n.id = any(%(ids)s)

-- name: nodes_by_id
-- Nodes with their properties, unless those are larger than %(bytes)s altogether; in the given order.
with chosen as (
    select n.id, n.label, n.name, n.properties, sum(octet_length(n.properties::text)) over (order by wanted.place) as size
    from unnest(%(ids)s::uuid[]) with ordinality as wanted (id, place)
    join nodes n on n.id = wanted.id and n.tenant = %(tenant)s and n.partition = 'trusted'
)
select id, label, name, properties from chosen where size <= %(bytes)s
