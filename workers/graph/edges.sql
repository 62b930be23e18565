-- fragment: edge_columns
-- What a record of an edge e is made from.
e.id, e.source_id, e.target_id, e.relation, e.weight, e.memory_sector, e.sector_source, e.properties, e.created_at

-- fragment: edges_between_names
-- Knowledge edges e of one relation between nodes s and t of these names, any label unless one is given.
edges e
join nodes s on s.id = e.source_id and s.namespace = %(namespace)s and s.partition = 'trusted'
    and s.name = %(source_name)s and (%(source_label)s::text is null or s.label = %(source_label)s)
join nodes t on t.id = e.target_id and t.namespace = %(namespace)s and t.partition = 'trusted'
    and t.name = %(target_name)s and (%(target_label)s::text is null or t.label = %(target_label)s)
where e.namespace = %(namespace)s and e.layer = 'knowledge' and e.relation = %(relation)s

-- name: nodes_named
-- Every node of these names, oldest first, protected from deletion (the key share that a foreign key takes).
select n.id, n.label, n.name
from nodes n
where n.namespace = %(namespace)s and n.partition = 'trusted' and n.name = any(%(names)s::text[])
order by n.created_at, n.id
for key share

-- name: insert_node
-- Make a named node; no row when it is there already.
with space as (
    insert into namespaces (namespace) values (%(namespace)s) on conflict do nothing
)
insert into nodes (id, namespace, label, name, partition, properties)
values (%(id)s, %(namespace)s, %(label)s, %(name)s, 'trusted', %(properties)s)
on conflict (namespace, label, name) where name is not null do nothing
returning id

-- name: lock_node
-- A named node, locked for a change of its properties.
select n.id, n.label, n.name, n.properties
from nodes n
where n.namespace = %(namespace)s and n.label = %(label)s and n.name = %(name)s
for no key update

-- name: update_node
-- Replace the properties of a locked node.
update nodes set properties = %(properties)s, updated_at = now()
where namespace = %(namespace)s and id = %(id)s

-- name: insert_edge
-- Make a knowledge edge; no row when it is there already.
insert into edges (
    id, namespace, layer, source_id, target_id, relation, weight, origin, last_active_hours, memory_sector,
    sector_source, properties
)
values (
    %(id)s, %(namespace)s, 'knowledge', %(source_id)s, %(target_id)s, %(relation)s, %(weight)s, 'agent',
    coalesce((select active_hours from namespaces where namespace = %(namespace)s), 0), %(memory_sector)s, 'auto',
    %(properties)s
)
on conflict (namespace, source_id, target_id, relation) where layer = 'knowledge' do nothing
returning id

-- name: lock_edge_between
-- The knowledge edge between two nodes, locked.
select {edge_columns}
from edges e
where e.namespace = %(namespace)s and e.layer = 'knowledge' and e.source_id = %(source_id)s
    and e.target_id = %(target_id)s and e.relation = %(relation)s
for no key update

-- name: lock_edge
-- A knowledge edge by its id, locked.
select {edge_columns}
from edges e
where e.namespace = %(namespace)s and e.layer = 'knowledge' and e.id = %(id)s
for no key update

-- name: lock_edges_between_names
-- Every edge that a triple of names can mean, oldest first, locked. Rows are as they are once the lock is held.
select {edge_columns}
from {edges_between_names}
order by e.created_at, e.id
for no key update of e

-- name: merge_edge
-- Write what adding a locked edge again has changed, and set its clock.
update edges set weight = %(weight)s, properties = %(properties)s, memory_sector = %(memory_sector)s,
    updated_at = now(),
    last_active_hours = coalesce((select active_hours from namespaces where namespace = %(namespace)s), 0)
where namespace = %(namespace)s and id = %(id)s

-- name: reclassify_edge
-- Give a locked edge its sector for good and note it among its properties. The clock's time, not the transaction's:
-- whoever waited for the lock comes later.
update edges set memory_sector = %(to_sector)s, sector_source = 'manual', updated_at = now(),
    properties = properties || jsonb_build_object('last_reclassification', jsonb_build_object(
        'from_sector', %(from_sector)s::text,
        'to_sector', %(to_sector)s::text,
        'timestamp', to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'actor', %(actor)s::text
    ))
where namespace = %(namespace)s and id = %(id)s

-- name: delete_edge
-- Remove a locked edge.
delete from edges where namespace = %(namespace)s and layer = 'knowledge' and id = %(id)s

-- name: lock_node_for_deletion
-- A named node by its id; nobody can add an edge to it from now on.
select n.id, n.label
from nodes n
where n.namespace = %(namespace)s and n.name is not null and n.id = %(id)s
for update

-- name: marked_edges
-- Edges of a node whose properties may make them constitutive.
select e.id, e.properties
from edges e
where e.namespace = %(namespace)s and (e.source_id = %(id)s or e.target_id = %(id)s)
    and e.properties ?| %(keys)s::text[]
order by e.id

-- name: delete_edges_of_node
-- Remove the edges of a locked node. Those that may be constitutive are told again: one may have become so since.
with gone as (
    delete from edges
    where namespace = %(namespace)s and (source_id = %(id)s or target_id = %(id)s)
    returning id, properties
)
select count(*) as edges_deleted,
    coalesce(jsonb_agg(jsonb_build_array(id, properties)) filter (where properties ?| %(keys)s::text[]), '[]') as marked
from gone

-- name: delete_node
-- Remove a locked node that has no edges any more.
delete from nodes where namespace = %(namespace)s and id = %(id)s and name is not null
