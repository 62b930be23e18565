-- fragment: listed
-- What a list shows of memories_in_namespace m: as the visibility rule has it, but that a state or a verification which is asked for
-- is shown, whatever it hides elsewhere.
m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[])
and {held}
and case when %(states)s::text[] is null then not {archived} else {state} = any(%(states)s::text[]) end
and case when %(verifications)s::text[] is null then m.verification <> 'rejected'
    else m.verification = any(%(verifications)s::text[]) end
and {in_sectors}
and {in_project_asked}
and (%(tags)s::text[] is null or {tagged})
and (%(ids)s::uuid[] is null or m.node_id = any(%(ids)s::uuid[]))
and (%(thread)s::text is null or m.thread = %(thread)s)
and (%(source_type)s::text is null or m.source_type = %(source_type)s)
and (%(created_by)s::text is null or m.created_by = %(created_by)s)
and {in_span}
and (%(evidence)s::text is null or (m.evidence is not null and (%(evidence)s::text = 'cited' or {stale})))
and (%(external_id)s::text is null or m.node_id = any(array(
    select n.id from nodes n where n.tenant = %(tenant)s and n.external_id = %(external_id)s
)))

-- name: tagged_memories
-- The memories that have all of these tags, up to a limit.
select m.node_id as id
from memories_in_namespace m
where m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[]) and {tagged}
limit %(limit)s

-- name: recent_memories
-- The newest memories, from below a position on; one more than a page shows whether there is another.
with listed as materialized (
    select m.node_id, m.partition, m.created_at
    from memories_in_namespace m
    where {listed}
        and (%(before)s::timestamptz is null
            or (m.created_at, m.node_id) < (%(before)s::timestamptz, %(before_id)s::uuid))
    order by m.created_at desc, m.node_id desc
    limit %(limit)s
)
select {memory_columns}
from listed l
cross join lateral (
    select m.* from memories m
    where m.tenant = %(tenant)s and m.node_id = l.node_id and m.partition = l.partition offset 0
) m
cross join lateral (select n.external_id from nodes n where n.tenant = %(tenant)s and n.id = l.node_id offset 0) n
left join lateral (
    select u.* from memory_usage u where u.tenant = %(tenant)s and u.node_id = l.node_id offset 0
) u on true
order by l.created_at desc, l.node_id desc

-- name: standing_memories
-- Standing wishes of a project and of none, the newest first.
select {memory_columns}
from {memory_tables}
where {visible} and m.standing and m.standing_source is not null and {in_project}
order by m.created_at desc, m.node_id desc
limit %(limit)s

-- name: memories_shown_often
-- The memories that searches have shown most often, of the few most shown those that hold and that the caller sees.
select m.node_id as id, left(m.content, %(beginning_chars)s) as beginning, u.access_count as shown, u.helped, u.hindered
from (
    select * from memory_usage
    where tenant = %(tenant)s and access_count > 0
    order by access_count desc, node_id desc
    limit %(candidates)s
) u
join memories m on m.tenant = u.tenant and m.node_id = u.node_id
where {visible} and m.state = 'active'
order by u.access_count desc, u.node_id desc
limit %(limit)s
