-- name: lock_edges_between_names
-- Every edge that a triple of names can mean, oldest first, locked. Rows are as they are once the lock is held.
select {edge_columns}, s.label as source_label, t.label as target_label
from {edges_between_names}
order by e.created_at, e.id
for no key update of e

-- name: reclassify_edge
-- Give an edge, which a statement before has locked, its sector for good and note it among its properties. The clock's
-- time, not the transaction's: whoever waited for the lock comes later.
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
