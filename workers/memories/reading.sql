-- name: recent_memories
-- The newest memories, from below a position on; one more than a page shows whether there is another.
select {memory_columns}
from {memory_tables}
where {visible}
    and (%(sectors)s::text[] is null or coalesce(m.sector, 'semantic') = any(%(sectors)s::text[]))
    and (%(before)s::timestamptz is null or (m.created_at, m.node_id) < (%(before)s::timestamptz, %(before_id)s::uuid))
order by m.created_at desc, m.node_id desc
limit %(limit)s
