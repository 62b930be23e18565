-- fragment: memory_columns
-- What a record of a memory is made from; see records.py.
m.node_id as id, n.external_id, {state} as state, {ends} as valid_until, {each shown_column: m.$name}, m.owner, m.occurred_offset, u.accessed_at,
coalesce(u.helped, 0) as helped, coalesce(u.hindered, 0) as hindered

-- fragment: memory_tables
-- Where those columns come from.
memories m
join nodes n on n.tenant = m.tenant and n.id = m.node_id and n.partition = m.partition
left join memory_usage u on u.tenant = m.tenant and u.node_id = m.node_id

-- fragment: in_span
-- Whether a memory m happened (else was stored), and was stored, in the spans of time that are asked for.
(%(since)s::timestamptz is null or coalesce(m.occurred_at, m.created_at) >= %(since)s)
and (%(until)s::timestamptz is null or coalesce(m.occurred_at, m.created_at) <= %(until)s)
and (%(stored_since)s::timestamptz is null or m.created_at >= %(stored_since)s)
and (%(stored_until)s::timestamptz is null or m.created_at <= %(stored_until)s)

-- fragment: in_sectors
-- Whether a memory m is in one of these sectors. What is not classified yet reads as semantic; what fits no sector is in
-- none of them.
(%(sectors)s::text[] is null or case when m.sector_source = 'none' then false
    else coalesce(m.sector, 'semantic') = any(%(sectors)s::text[]) end)

-- fragment: superseded
-- Whether a memory m is superseded; by what is not known any more once that was erased.
(m.superseded_by is not null or m.superseded_at is not null)

-- fragment: state
-- The state that a memory m reads as: archived once it has expired, whether upkeep has been there or not.
case when m.expires_at <= now() then 'archived' else m.state end

-- fragment: ends
-- When a memory m ends, as it reads: at its own end, else where what replaced it begins; one that was to begin later than
-- that never holds.
coalesce(m.valid_until, case when m.superseded_from is not null then greatest(m.superseded_from, m.valid_from) end)

-- fragment: expired
-- Whether a memory m has expired and upkeep has not archived it yet.
(m.state <> 'archived' and coalesce(m.expires_at <= now(), false))

-- fragment: archived
-- Whether a memory m reads as archived.
(m.state = 'archived' or coalesce(m.expires_at <= now(), false))

-- fragment: absence
-- Why a memory m is not to be found: it reads as archived, or is superseded; null when neither. Whether upkeep has been there
-- makes no difference.
case when m.expires_at <= now() then 'expired' when m.state = 'archived' then 'forgotten' when {superseded} then 'superseded' end

-- fragment: withdrawn
-- Whether a memory m is nobody's truth, at whatever time: archived, expired or rejected.
({archived} or m.verification = 'rejected')

-- fragment: current
-- Whether a memory m is neither withdrawn nor superseded: such a one can be linked, and replace another.
(not {withdrawn} and not {superseded})

-- fragment: holds_now
-- Whether a memory m is neither superseded nor past its own end.
(not {superseded} and coalesce(m.valid_until > now(), true))

-- fragment: held
-- Whether a memory m holds: now, with what begins later, or at %(as_of)s, when superseded ones may have held too.
-- %(include_superseded)s shows what holds no longer besides.
case when %(as_of)s::timestamptz is null
    then %(include_superseded)s or {holds_now}
    else coalesce(m.valid_from, m.created_at) <= %(as_of)s and coalesce(m.valid_until > %(as_of)s, true)
        and coalesce(m.superseded_from > %(as_of)s, true)
end

-- fragment: visible
-- The one visibility rule of memories m: %(partitions)s is a text array, %(include_superseded)s a boolean, %(as_of)s a
-- time or null; see `visible_now` in memory_rows.py.
m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[]) and not {withdrawn} and {held}

-- fragment: in_project
-- Whether a memory m is of the project %(project)s or of none; '*' for all projects, null for none.
(%(project)s::text = '*' or m.project is null or m.project = %(project)s)

-- fragment: in_project_asked
-- As in_project; with %(project_only)s a project that is named is meant alone. `is not distinct from` would have no index.
{in_project} and (not %(project_only)s or %(project)s::text = '*'
    or case when %(project)s::text is null then m.project is null else m.project = %(project)s end)

-- fragment: tagged
-- Whether a memory m has all of these tags, in the words of their index, which serves memories_in_namespace alone.
tag_keys(m.tenant, m.tags) @> tag_keys(%(tenant)s, %(tags)s::text[])

-- fragment: clock
-- The namespace's clock.
coalesce((select c.active_hours from namespaces c where c.tenant = %(tenant)s), 0)

-- fragment: locked_memories
-- What decides about memories, of the tables whose rows are locked with it.
select
    n.id, m.partition, {state} as state, m.verification, m.supersedes, m.superseded_by, m.superseded_at,
    {superseded} as is_superseded, {expired} as has_expired, m.state as kept_state, m.valid_from, m.valid_until, m.expires_at,
    m.created_by, m.owner
from nodes n
join memories m on m.tenant = n.tenant and m.node_id = n.id and m.partition = n.partition

-- name: lock_memories
-- Lock memories against every other change, in the one order that all writers keep, and read what decides.
{locked_memories}
where n.tenant = %(tenant)s and n.id = any(%(ids)s)
order by n.id
for no key update of n, m

-- name: memories_by_id
-- Memories of this namespace, whatever their state.
select {memory_columns}
from {memory_tables}
where m.tenant = %(tenant)s and n.id = any(%(ids)s)

-- name: memory_beginnings
-- How the contents of memories in these partitions begin.
select m.node_id as id, left(m.content, %(beginning_chars)s) as beginning
from unnest(%(ids)s::uuid[]) as given (id)
join memories m on m.tenant = %(tenant)s and m.node_id = given.id and m.partition = any(%(partitions)s::text[])
