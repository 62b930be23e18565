-- fragment: webhook_columns
-- All that is kept of a webhook, and what waits for it.
w.id, %(namespace)s::text as namespace, w.url, w.events, w.with_content, w.key_id, w.created_by, w.created_at,
(select count(*) from webhook_outbox o where o.tenant = %(tenant)s and o.webhook_id = w.id and o.dead_at is null) as waiting,
(select count(*) from webhook_outbox o where o.tenant = %(tenant)s and o.webhook_id = w.id and o.dead_at is not null) as dead

-- name: add_webhook
-- Tell these events to a URL from now on.
insert into webhooks (tenant, id, url, events, with_content, key_id, created_by)
values (%(tenant)s, %(id)s, %(url)s, %(events)s::text[], %(with_content)s, %(key_id)s, %(created_by)s)
returning created_at

-- name: list_webhooks
-- The webhooks of a namespace, oldest first.
select {webhook_columns}
from webhooks w
where w.tenant = %(tenant)s
order by w.id

-- name: remove_webhook
-- Tell a webhook nothing any more, not even what waits.
delete from webhooks where tenant = %(tenant)s and id = %(id)s
returning url

-- name: dead_messages
-- Messages that nobody took, oldest first.
select o.id, o.webhook_id, o.event, o.at, o.attempts, o.problem, o.dead_at
from webhook_outbox o
where o.tenant = %(tenant)s and o.dead_at is not null
order by o.at, o.id

-- name: retry_messages
-- Send dead messages once more, with all their tries: one, or those of one webhook.
with again as (
    update webhook_outbox o set dead_at = null, attempts = 0, next_at = now()
    where o.tenant = %(tenant)s and o.dead_at is not null and (o.id = %(id)s or o.webhook_id = %(id)s)
    returning 1
)
select count(*) as messages from again

-- name: namespaces_to_tell
-- Namespaces with messages to send, or that died so many days ago.
select namespace from namespaces_to_tell(%(days)s::integer) as namespace

-- name: due_messages
-- Messages to send now, oldest first, so many of each webhook, with the content of their memory where that is wanted: not
-- of one that is erased or archived by now.
select o.id, o.webhook_id, w.url, o.event, o.at, o.told, o.attempts, w.with_content, case when w.with_content then (
        select m.content from memories m
        where m.tenant = %(tenant)s and m.node_id = o.memory_id and m.state <> 'archived'
    ) end as content
from webhooks w
cross join lateral (
    select d.* from webhook_outbox d
    where d.tenant = %(tenant)s and d.webhook_id = w.id and d.dead_at is null and d.next_at <= now()
    order by d.at, d.id
    limit %(limit)s
) o
where w.tenant = %(tenant)s and w.key_id = %(key_id)s
order by o.at, o.id

-- name: messages_received
-- Forget messages that were taken.
delete from webhook_outbox where tenant = %(tenant)s and id = any(%(ids)s::uuid[])

-- name: message_failed
-- Note a try that failed: the next one is so many seconds later, or there is none.
with moment as materialized (select now() as now)
update webhook_outbox o set attempts = o.attempts + 1, problem = %(problem)s,
    next_at = now() + make_interval(secs => coalesce(%(wait_s)s::double precision, 0)),
    dead_at = case when %(wait_s)s::double precision is null then moment.now end
from moment
where o.tenant = %(tenant)s and o.id = %(id)s and o.dead_at is null

-- name: messages_postponed
-- Let the messages behind one that failed wait as long as that one.
update webhook_outbox set next_at = greatest(next_at, now() + make_interval(secs => %(wait_s)s::double precision))
where tenant = %(tenant)s and webhook_id = %(webhook_id)s and dead_at is null

-- name: trim_messages
-- Forget messages that died so many days ago.
delete from webhook_outbox
where tenant = %(tenant)s and dead_at < now() - make_interval(days => %(days)s::integer)
