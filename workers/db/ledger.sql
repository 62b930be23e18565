-- name: ledger_begin
-- Insert a command id (and an idempotency key) for this transaction; no row when either is taken. Waits for another
-- transaction that is about to take it.
with noted as (
    {changed_now}
)
insert into ledger (command_id, tenant, principal, principal_untrusted, command, idempotency_key, fingerprint, attempt)
values (
    %(command_id)s, %(tenant)s, %(principal)s, %(principal_untrusted)s, %(command)s, %(idempotency_key)s,
    %(fingerprint)s, %(attempt)s
)
on conflict do nothing
returning command_id

-- name: ledger_end
-- Keep the answer of the command that this transaction carried out, and what is to be told of it for each webhook that
-- wants to know: in a namespace without one that costs a look into an empty page, and no statement.
with announced as (
    {into_outbox}
)
update ledger set answer = %(answer)s::jsonb, memory_id = %(memory_id)s
where tenant = %(tenant)s and command_id = %(command_id)s
returning command_id

-- fragment: into_outbox
-- Put what happened into the outbox of each webhook that wants to know.
insert into webhook_outbox (tenant, webhook_id, event, memory_id, told, next_at)
select %(tenant)s, w.id, %(event)s, %(told_of)s, %(told)s, greatest(w.again_at, clock_timestamp())
from webhooks w
where w.tenant = %(tenant)s and %(event)s::text = any(w.events)
returning id

-- name: tell_webhooks
-- The same of what is no answer of a command by itself.
{into_outbox}

-- name: drop_announcements
-- Tell no webhook any more what has not been told of a memory.
delete from webhook_outbox where tenant = %(tenant)s and memory_id = %(id)s

-- name: ledger_keep
-- Keep an answer without the idempotency key, which may be used again after a refusal, or is an earlier command's.
insert into ledger (command_id, tenant, principal, principal_untrusted, command, attempt, answer)
values (%(command_id)s, %(tenant)s, %(principal)s, %(principal_untrusted)s, %(command)s, %(attempt)s, %(answer)s::jsonb)
on conflict do nothing
returning command_id

-- name: ledger_find
-- What became of a command, or else of the first one with its idempotency key.
select command_id, principal, principal_untrusted, command, fingerprint, answer::text as answer, created_at
from ledger
where tenant = %(tenant)s
    and (command_id = %(command_id)s or (
        principal = %(principal)s and principal_untrusted = %(principal_untrusted)s
        and idempotency_key = %(idempotency_key)s
    ))
order by (command_id = %(command_id)s) desc
limit 1

-- name: ledger_trim
-- Forget commands of a namespace that nobody can repeat any more, at most %(limit)s of them.
with old as (
    select command_id from ledger
    where tenant = %(tenant)s and created_at < now() - make_interval(days => %(days)s)
    limit %(limit)s
    for update skip locked
), gone as (
    delete from ledger l using old where l.tenant = %(tenant)s and l.command_id = old.command_id returning 1
)
select count(*) as trimmed from gone

-- name: ledger_blank
-- Put other values into the stored answers of one kind of commands that are about these things.
update ledger l set answer = jsonb_set(l.answer, array['reply'], (l.answer -> 'reply') || %(blank)s::jsonb)
where l.tenant = %(tenant)s and l.command = %(command)s
    and l.answer #>> array['reply', %(field)s::text] = any(%(names)s::text[])
