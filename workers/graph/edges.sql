-- fragment: edge_columns
-- What a record of an edge e is made from.
e.id, e.source_id, e.target_id, e.relation, e.weight, e.memory_sector, e.sector_source, e.properties, e.created_at,
e.created_by, e.updated_by, e.valid_from, e.valid_until

-- fragment: edge_holds
-- Whether an edge e held at %(as_of)s. Without that, whether it holds now or will: what has ended is hidden, what is
-- planned is not. The end of an interval is no part of it; one without a beginning began when the edge was written.
(%(as_of)s::timestamptz is null or coalesce(e.valid_from, e.created_at) <= %(as_of)s::timestamptz)
and (e.valid_until is null or e.valid_until > coalesce(%(as_of)s::timestamptz, now()))

-- fragment: edges_between_names
-- Knowledge edges e of one relation between nodes s and t of these names, any label unless one is given.
edges e
join nodes s on s.id = e.source_id and s.tenant = %(tenant)s and s.partition = 'trusted'
    and s.name = %(source_name)s and (%(source_label)s::text is null or s.label = %(source_label)s)
join nodes t on t.id = e.target_id and t.tenant = %(tenant)s and t.partition = 'trusted'
    and t.name = %(target_name)s and (%(target_label)s::text is null or t.label = %(target_label)s)
where e.tenant = %(tenant)s and e.layer = 'knowledge' and e.relation = %(relation)s

-- name: insert_edge
-- Make a knowledge edge; no row when it is there already.
insert into edges (
    id, tenant, layer, source_id, target_id, relation, weight, origin, last_active_hours, memory_sector,
    sector_source, properties, created_by, updated_by, valid_from, valid_until
)
select
    %(id)s, %(tenant)s, 'knowledge', %(source_id)s, %(target_id)s, %(relation)s, %(weight)s, 'agent',
    coalesce((select active_hours from namespaces where tenant = %(tenant)s), 0), %(memory_sector)s, 'auto',
    %(properties)s, %(writer)s, %(writer)s, %(valid_from)s, %(valid_until)s
on conflict (tenant, source_id, target_id, relation) where layer = 'knowledge' do nothing
returning id, created_at

-- name: lock_edge_between
-- The knowledge edge between two nodes, locked.
select {edge_columns}
from edges e
where e.tenant = %(tenant)s and e.layer = 'knowledge' and e.source_id = %(source_id)s
    and e.target_id = %(target_id)s and e.relation = %(relation)s
for no key update

-- name: lock_edge
-- A knowledge edge by its id, locked.
select {edge_columns}
from edges e
where e.tenant = %(tenant)s and e.layer = 'knowledge' and e.id = %(id)s
for no key update

-- name: merge_edge
-- Write what adding a locked edge again has changed, and set its clock.
update edges set weight = %(weight)s, properties = %(properties)s, memory_sector = %(memory_sector)s,
    valid_from = %(valid_from)s, valid_until = %(valid_until)s, updated_at = now(),
    updated_by = case when weight = %(weight)s and properties = %(properties)s
        and valid_from is not distinct from %(valid_from)s and valid_until is not distinct from %(valid_until)s
        then updated_by else %(writer)s end,
    last_active_hours = coalesce((select active_hours from namespaces where tenant = %(tenant)s), 0)
where tenant = %(tenant)s and id = %(id)s

-- fragment: marked
-- Of edges, the ids and properties of those that these may make constitutive.
coalesce(jsonb_agg(jsonb_build_array(id, properties) order by id) filter (where properties ?| %(keys)s::text[]), '[]')

-- name: edges_counted
-- How many edges a node has, and those whose properties may make them constitutive.
select count(*) as edges, {marked} as marked
from edges
where tenant = %(tenant)s and (source_id = %(id)s or target_id = %(id)s)

-- name: delete_edges_of_node
-- Remove the edges of a locked node, and keep what they were. Those that may be constitutive are told again: one may
-- have become so since.
with gone as (
    delete from edges
    where tenant = %(tenant)s and (source_id = %(id)s or target_id = %(id)s)
    returning *
), kept as (
    insert into deleted_graph (tenant, deletion, id, is_node, record, created_by, deleted_at)
    select %(tenant)s, %(deletion)s, id, false, to_jsonb(gone) - 'tenant', created_by, %(deleted_at)s from gone
    returning id
)
select count(*) as edges, {marked} as marked from gone

-- name: lock_edges_between_names
-- Every edge that a triple of names can mean, oldest first, locked. Rows are as they are once the lock is held.
select {edge_columns}, s.label as source_label, t.label as target_label
from {edges_between_names}
order by e.created_at, e.id
for no key update of e

-- name: reclassify_edge
-- Give an edge, which a statement before has locked, its sector for good and note it among its properties. The clock's
-- time, not the transaction's: a transaction that waited for the lock comes later.
with note as materialized (
    select jsonb_build_object('last_reclassification', jsonb_build_object(
        'from_sector', %(from_sector)s::text,
        'to_sector', %(to_sector)s::text,
        'timestamp', to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'actor', %(actor)s::text
    )) as properties
)
update edges e set memory_sector = %(to_sector)s, sector_source = 'manual', updated_at = now(),
    updated_by = %(writer)s, properties = e.properties || note.properties
from note
where e.tenant = %(tenant)s and e.id = %(id)s
