-- fragment: purged
-- What a purge takes: all that is given has to hold; or, if these are to go too, it rests on what the purge has taken.
m.tenant = %(tenant)s and (({named}) or {resting_on_taken}) and (not %(unarchived)s or m.state <> 'archived')

-- fragment: resting_on_taken
-- Whether a memory m cites one that the command %(taken_by)s has erased or archived; no command, no such memory. What
-- the reader does not see was in no list, so it stays: it is not the author's whose memories go.
(%(taken_by)s::uuid is not null and (m.owner is null or m.owner = %(reader)s::text) and m.evidence @? '$[*].memory_id' and exists (
    select
    from jsonb_array_elements(m.evidence) as cited
    join audit_log a on a.tenant = %(tenant)s and a.target_id = (cited ->> 'memory_id')::uuid
    where a.command_id = %(taken_by)s::uuid and a.action in ('erase', 'archive')
))

-- fragment: named
-- Whether a memory m is one that the filters of a purge name.
(%(created_by)s::text is null or m.created_by = %(created_by)s
    or %(private)s and m.owner = any(%(owners)s::text[]))
and (%(source_type)s::text is null or m.source_type = %(source_type)s)
and (%(thread)s::text is null or m.thread = %(thread)s)
and (%(project)s::text is null or m.project = %(project)s)
and (%(partition)s::text is null or m.partition = %(partition)s)
and (%(since)s::timestamptz is null or m.created_at >= %(since)s)
and (%(until)s::timestamptz is null or m.created_at <= %(until)s)
and (not %(private)s or m.owner is not null)

-- name: purge_count
-- How many memories a purge would take, and what time it is: later ones are not its affair.
select count(*) as memories, count(*) filter (where m.partition = 'trusted') as of_trusted, now() as now
from memories m where {purged}

-- name: purge_projects
-- How many memories a purge would take of each project, "" those of none, of the projects with most of them.
select coalesce(m.project, '') as project, count(*) as memories
from memories m where {purged}
group by m.project
order by memories desc, project
limit %(limit)s

-- name: purge_next
-- The oldest memories that a purge takes from a place on.
select m.node_id as id, m.created_at, m.content
from memories m
where {purged} and (m.created_at, m.node_id) > (%(after)s, %(after_id)s)
order by m.created_at, m.node_id
limit %(limit)s

-- name: purge_still
-- Which of these memories, locked by now, a purge still takes.
select m.node_id as id, m.state, m.partition, m.superseded_by, m.owner
from memories m
where {purged} and m.node_id = any(%(ids)s)
order by m.created_at, m.node_id

-- name: purge_done
-- What a command has erased so far, the oldest ids first.
select count(*) as memories, count(*) filter (where old ->> 'partition' = 'trusted') as of_trusted, (array_agg(target_id order by target_id))[1:%(shown)s] as ids
from audit_log
where tenant = %(tenant)s and command_id = %(command_id)s and action = %(action)s

-- name: purge_hidden
-- What the memories that a command erased or archived left hidden, when each of them was.
select distinct one::uuid as id
from audit_log, jsonb_array_elements_text(new -> 'still_hidden') as one
where tenant = %(tenant)s and command_id = %(command_id)s and action in ('erase', 'archive')

-- name: purge_constitutive
-- How many constitutive edges a command has taken.
select count(*) as edges from audit_log
where tenant = %(tenant)s and command_id = %(command_id)s and action = 'delete_edge' and old ? 'constitutive'

-- name: archive_many
-- Hide locked memories until they are restored.
update memories set state = 'archived', updated_at = now()
where tenant = %(tenant)s and node_id = any(%(ids)s)

-- fragment: citing
-- Which memories that are not withdrawn cite which.
citing as materialized (
    select m.node_id as id, m.owner, (cited ->> 'memory_id')::uuid as ground
    from memories_in_namespace m
    cross join lateral jsonb_array_elements(m.evidence) as cited
    where m.tenant = %(tenant)s and m.evidence @? '$[*].memory_id' and cited ? 'memory_id' and not {withdrawn}
)

-- name: purge_resting
-- What rests on what a purge would take, whatever lies between, and would not be taken by its filters; the newest first.
with recursive {citing}, resting as (
    select c.id
    from citing c
    join memories m on m.tenant = %(tenant)s and m.node_id = c.ground
    where {purged}
    union
    select c.id from citing c join resting r on c.ground = r.id
)
select r.id, count(*) over () as resting
from resting r
where not exists (select from memories m where m.node_id = r.id and {purged})
order by r.id desc
limit %(limit)s

-- name: purge_left_resting
-- What rests on what a command has erased or archived, the newest first, of what the reader sees (null: what all do).
with {citing}
select c.id, count(*) over () as resting
from citing c
where (c.owner is null or c.owner = %(reader)s::text) and exists (
    select from audit_log a
    where a.tenant = %(tenant)s and a.target_id = c.ground and a.command_id = %(command_id)s
        and a.action in ('erase', 'archive')
)
group by c.id
order by c.id desc
limit %(limit)s
