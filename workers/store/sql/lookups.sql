-- name: recent_memories
-- A page of the visible memories, newest first; after a position, what comes behind it.
select {memory_columns}
from {memory_tables}
where {visible}
    and (%(sectors)s::text[] is null or coalesce(m.sector, 'semantic') = any(%(sectors)s::text[]))
    and (%(before)s::timestamptz is null or (m.created_at, m.node_id) < (%(before)s::timestamptz, %(before_id)s::uuid))
order by m.created_at desc, m.node_id desc
limit %(limit)s

-- name: memory_by_id
-- One memory of this namespace, whatever its state, in the partitions asked for.
select {memory_columns}
from {memory_tables}
where m.namespace = %(namespace)s and m.node_id = %(id)s and m.partition = any(%(partitions)s::text[])

-- name: links_of_memory
-- The links of one memory whose other end may be shown: by the visibility rule, and where superseding is what links.
select
    case when e.source_id = %(id)s then e.target_id else e.source_id end as memory_id,
    e.relation, e.weight, e.note, e.origin, e.reinforcement_count, e.declared_from = %(id)s as declared_here
from edges e
join memories m on m.node_id = case when e.source_id = %(id)s then e.target_id else e.source_id end
where e.namespace = %(namespace)s and e.layer = 'association' and (e.source_id = %(id)s or e.target_id = %(id)s)
    and {visible}
order by e.weight desc, memory_id

-- name: count_memories
-- How many memories there are of each sort; sectors read as they are shown.
select m.partition, coalesce(m.sector, 'semantic') as sector, m.state, count(*) as memories,
    count(m.superseded_by) as superseded
from memories m
where m.namespace = %(namespace)s
group by 1, 2, 3

-- name: count_edges
-- How many edges there are of each sort.
select e.layer, e.origin, e.relation, count(*) as edges
from edges e
where e.namespace = %(namespace)s
group by 1, 2, 3
order by 1, 2, 3
