-- fragment: purged
-- What a purge takes: all that is given has to hold.
m.tenant = %(tenant)s
and (%(created_by)s::text is null or m.created_by = %(created_by)s)
and (%(source_type)s::text is null or m.source_type = %(source_type)s)
and (%(thread)s::text is null or m.thread = %(thread)s)
and (%(project)s::text is null or m.project = %(project)s)
and (%(partition)s::text is null or m.partition = %(partition)s)
and (%(since)s::timestamptz is null or m.created_at >= %(since)s)
and (%(until)s::timestamptz is null or m.created_at <= %(until)s)
and (not %(unarchived)s or m.state <> 'archived')
and (not %(private)s or m.owner is not null)

-- name: purge_count
-- How many memories a purge would take, and what time it is: later ones are not its affair.
select count(*) as memories, now() as now from memories m where {purged}

-- name: purge_next
-- The oldest memories that a purge takes from a place on.
select m.node_id as id, m.created_at, m.content
from memories m
where {purged} and (m.created_at, m.node_id) > (%(after)s, %(after_id)s)
order by m.created_at, m.node_id
limit %(limit)s

-- name: purge_successors
-- Which memories replaced these, for all to be locked together.
select m.superseded_by as id from memories m
where m.tenant = %(tenant)s and m.node_id = any(%(ids)s) and m.superseded_by is not null

-- name: purge_still
-- Which of these memories, locked by now, a purge still takes.
select m.node_id as id, m.state, m.superseded_by
from memories m
where {purged} and m.node_id = any(%(ids)s)
order by m.created_at, m.node_id

-- name: purge_done
-- What a command has erased so far, the oldest ids first.
select count(*) as memories, (array_agg(target_id order by target_id))[1:%(shown)s] as ids
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
