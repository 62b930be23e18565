-- fragment: listed
-- What a list shows of memories m: as the visibility rule has it, but that a state or a verification which is asked for
-- is shown, whatever it hides elsewhere.
m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[])
and (m.superseded_by is null or %(include_superseded)s)
and case when %(states)s::text[] is null then m.state <> 'archived' else m.state = any(%(states)s::text[]) end
and case when %(verifications)s::text[] is null then m.verification <> 'rejected'
    else m.verification = any(%(verifications)s::text[]) end
and (%(sectors)s::text[] is null or coalesce(m.sector, 'semantic') = any(%(sectors)s::text[]))
and (%(thread)s::text is null or m.thread = %(thread)s)
and (%(source_type)s::text is null or m.source_type = %(source_type)s)
and (%(created_by)s::text is null or m.created_by = %(created_by)s)
and (%(external_id)s::text is null or m.node_id = (
    select n.id from nodes n where n.tenant = %(tenant)s and n.external_id = %(external_id)s
))

-- name: recent_memories
-- The newest memories, from below a position on; one more than a page shows whether there is another.
select {memory_columns}
from {memory_tables}
where {listed}
    and (%(before)s::timestamptz is null or (m.created_at, m.node_id) < (%(before)s::timestamptz, %(before_id)s::uuid))
order by m.created_at desc, m.node_id desc
limit %(limit)s
