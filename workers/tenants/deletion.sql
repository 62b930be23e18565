-- name: tenant_deletion_begun
-- When the first try at a deletion began.
select at from audit_log
where tenant = %(tenant)s and command_id = %(command_id)s and action = %(action)s
order by id
limit 1

-- name: revoke_tokens
-- Let nobody in any more.
with gone as (
    update tokens set revoked_at = now()
    where tenant = %(tenant)s and created_at <= %(until)s and revoked_at is null
    returning id
)
select count(*) as rows from gone

-- name: delete_tokens
-- Forget the tokens that are revoked.
select delete_revoked_tokens() as rows

-- name: delete_some_edges
-- Remove some edges of one layer.
with few as (
    select e.id from edges e
    where e.tenant = %(tenant)s and e.layer = %(layer)s and e.created_at <= %(until)s
    order by e.id
    limit %(limit)s
), gone as (
    delete from edges e using few where e.tenant = %(tenant)s and e.id = few.id returning 1
)
select count(*) as rows from gone

-- name: some_memories
-- Some memories, whose contents have to vanish from queues too.
select m.node_id as id, m.content
from memories m
where m.tenant = %(tenant)s and m.created_at <= %(until)s
order by m.node_id
limit %(limit)s

-- name: delete_nodes
-- Remove nodes, with the memories that they are and all that hangs on them.
with gone as (
    delete from nodes where tenant = %(tenant)s and id = any(%(ids)s) returning 1
)
select count(*) as rows from gone

-- name: delete_some_nodes
-- Remove some named nodes.
with few as (
    select n.id from nodes n
    where n.tenant = %(tenant)s and n.name is not null and n.created_at <= %(until)s
    order by n.id
    limit %(limit)s
), gone as (
    delete from nodes n using few where n.tenant = %(tenant)s and n.id = few.id returning 1
)
select count(*) as rows from gone

-- name: delete_some_deleted
-- Remove some edges and named nodes that are kept since they were deleted.
with few as (
    select d.deletion, d.id from deleted_graph d
    where d.tenant = %(tenant)s and (d.record ->> 'created_at')::timestamptz <= %(until)s
    order by d.deletion, d.id
    limit %(limit)s
), gone as (
    delete from deleted_graph d using few
    where d.tenant = %(tenant)s and d.deletion = few.deletion and d.id = few.id
    returning 1
)
select count(*) as rows from gone

-- name: delete_some_deferred
-- Remove some links that wait.
with few as (
    select d.id from deferred_links d
    where d.tenant = %(tenant)s and d.created_at <= %(until)s
    order by d.id
    limit %(limit)s
), gone as (
    delete from deferred_links d using few where d.tenant = %(tenant)s and d.id = few.id returning 1
)
select count(*) as rows from gone

-- name: delete_some_proposals
-- Remove some proposals with their approvals.
with few as (
    select p.id from proposals p
    where p.tenant = %(tenant)s and p.created_at <= %(until)s
    order by p.id
    limit %(limit)s
), gone as (
    delete from proposals p using few where p.tenant = %(tenant)s and p.id = few.id returning 1
)
select count(*) as rows from gone

-- name: delete_some_imported_rows
-- Forget some rows of imports, so that they go in again; those whose memories are there came after the deletion began.
with few as (
    select r.digest from imported_rows r
    where r.tenant = %(tenant)s
        and not exists (select from nodes n where n.tenant = %(tenant)s and n.id = r.memory_id)
    order by r.digest
    limit %(limit)s
), gone as (
    delete from imported_rows r using few where r.tenant = %(tenant)s and r.digest = few.digest returning 1
)
select count(*) as rows from gone

-- name: delete_some_answers
-- Remove what is kept of some commands, but of the deletion itself.
with few as (
    select l.command_id from ledger l
    where l.tenant = %(tenant)s and l.created_at <= %(until)s and l.command_id <> %(command_id)s
    order by l.command_id
    limit %(limit)s
), gone as (
    delete from ledger l using few where l.tenant = %(tenant)s and l.command_id = few.command_id returning 1
)
select count(*) as rows from gone

-- name: blank_some_entries
-- Take out of the audit log what it says in somebody's words, but of the deletion itself.
select blank_audit_of_deleted(%(limit)s) as rows

-- name: delete_webhooks
-- Remove the webhooks, and what waits for them.
with gone as (
    delete from webhooks where tenant = %(tenant)s returning 1
)
select count(*) as rows from gone

-- name: delete_lexeme_counts
-- Remove how often words occur.
with gone as (
    delete from lexeme_counts where tenant = %(tenant)s returning 1
)
select count(*) as rows from gone

-- name: delete_lexeme_rebuild
-- Remove what is to be done for the language of its words.
with gone as (
    delete from lexeme_rebuilds where tenant = %(tenant)s returning 1
)
select count(*) as rows from gone

-- name: stop_clock
-- Set the namespace's clock back to the beginning.
update namespaces set active_hours = 0, in_use = '{}', in_use_since = null, links_decayed_at_hours = 0
where tenant = %(tenant)s

-- name: tenant_deleted
-- How much the tries at a deletion have removed so far, by what it was.
select coalesce(sum((new ->> 'memories')::bigint), 0)::bigint as memories,
    coalesce(sum((new ->> 'nodes')::bigint), 0)::bigint as nodes,
    coalesce(sum((new ->> 'edges')::bigint), 0)::bigint as edges,
    coalesce(sum((new ->> 'links')::bigint), 0)::bigint as links,
    coalesce(sum((new ->> 'tokens')::bigint), 0)::bigint as tokens
from audit_log
where tenant = %(tenant)s and command_id = %(command_id)s and action = %(action)s
