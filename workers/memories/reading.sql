-- name: recent_memories
-- The newest memories, from below a position on; one more than a page shows whether there is another.
select {memory_columns}
from {memory_tables}
where {visible}
    and (%(sectors)s::text[] is null or coalesce(m.sector, 'semantic') = any(%(sectors)s::text[]))
    and (%(before)s::timestamptz is null or (m.created_at, m.node_id) < (%(before)s::timestamptz, %(before_id)s::uuid))
order by m.created_at desc, m.node_id desc
limit %(limit)s

-- name: links_of
-- The links of a memory whose other ends may be seen, heaviest first.
select
    m.node_id as memory_id, m.partition, e.relation, e.weight, e.note, e.origin, e.reinforcement_count,
    coalesce(e.declared_from = m.node_id, false) as incoming
from (
    select e.*, e.target_id as other from edges e where e.source_id = %(id)s
    union all
    select e.*, e.source_id as other from edges e where e.target_id = %(id)s
) e
join memories m on m.node_id = e.other
where e.namespace = %(namespace)s and e.layer = 'association' and {visible} and m.state = 'active'
order by e.weight desc, m.node_id
limit %(limit)s

-- name: note_access
-- Count that memories were found, and when last; what was erased meanwhile is left out.
insert into memory_usage (node_id, namespace, access_count, accessed_at, last_active_hours)
select n.id, n.namespace, given.times, now(), {clock}
from unnest(%(ids)s::uuid[], %(times)s::bigint[]) as given (id, times)
join nodes n on n.id = given.id and n.namespace = %(namespace)s
order by n.id
for key share of n
on conflict (node_id) do update set
    access_count = memory_usage.access_count + excluded.access_count,
    accessed_at = excluded.accessed_at,
    last_active_hours = excluded.last_active_hours
returning node_id
