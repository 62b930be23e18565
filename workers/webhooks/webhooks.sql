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
-- Namespaces with messages to send, or that died so many days ago; whose last turn was longest ago comes first.
select namespace from namespaces_to_tell() as namespace

-- name: due_messages
-- Messages to send now, so many of each webhook: what was tried least comes first, then the oldest. With the content of
-- their memory where that is wanted: not of one that is erased, archived or private by now.
select o.id, o.webhook_id, w.url, o.event, o.at, o.told, w.failures, w.with_content, case when w.with_content then (
        select m.content from memories m
        where m.tenant = %(tenant)s and m.node_id = o.memory_id and m.state <> 'archived' and m.owner is null
    ) end as content
from webhooks w
cross join lateral (
    select d.* from webhook_outbox d
    where d.tenant = %(tenant)s and d.webhook_id = w.id and d.dead_at is null and d.next_at <= now()
    order by d.attempts, d.at, d.id
    limit %(limit)s
) o
where w.tenant = %(tenant)s and w.key_id = %(key_id)s
order by o.attempts, o.at, o.id

-- name: messages_received
-- Forget messages that were taken.
delete from webhook_outbox where tenant = %(tenant)s and id = any(%(ids)s::uuid[])

-- name: webhook_has_turn
-- Note that messages of a webhook are being sent.
update webhooks set turn_at = now() where tenant = %(tenant)s and id = %(webhook_id)s

-- name: webhook_recovered
-- Note that a webhook takes messages again.
update webhooks set failures = 0, again_at = now() where tenant = %(tenant)s and id = %(webhook_id)s

-- name: webhook_failed
-- Note a try that failed. All that waits for the webhook is left alone for a while, longer each time until something is
-- taken. A message has as many tries as there are waits, and the first. One failure counts for its message; from the second
-- in a row on, for all that was due: then the receiver is away. Names the messages that are given up.
with waits as materialized (
    select waits.place, now() as now, now() + make_interval(secs => waits.s) as until
    from unnest(%(waits_s)s::double precision[]) with ordinality waits (s, place)
),
failing as (
    update webhooks w set failures = w.failures + 1, again_at = waits.until
    from waits
    where w.tenant = %(tenant)s and w.id = %(webhook_id)s and waits.place = least(w.failures + 1, %(most)s::integer)
    returning w.failures, w.again_at, waits.now
),
waiting as (
    select o.id, o.attempts + case when counts.so then 1 else 0 end as attempts, counts.so,
        failing.again_at, failing.now, waits.until,
        counts.so and o.attempts >= cardinality(%(waits_s)s::double precision[]) as is_dead
    from webhook_outbox o
    cross join failing
    cross join lateral (select o.id = %(id)s or (failing.failures > 1 and o.next_at <= failing.now) as so) counts
    left join waits on counts.so and waits.place = o.attempts + 1
    where o.tenant = %(tenant)s and o.webhook_id = %(webhook_id)s and o.dead_at is null
),
noted as (
    update webhook_outbox o set attempts = w.attempts,
        problem = case when w.so then %(problem)s else o.problem end,
        next_at = greatest(w.again_at, case when w.so and not w.is_dead then w.until else o.next_at end),
        dead_at = case when w.is_dead then w.now end
    from waiting w
    where o.tenant = %(tenant)s and o.webhook_id = %(webhook_id)s and o.id = w.id
    returning o.id, o.dead_at
)
select id from noted where dead_at is not null

-- name: trim_messages
-- Forget messages that died so many days ago.
with old as (
    select id from webhook_outbox
    where tenant = %(tenant)s and dead_at < now() - make_interval(days => %(days)s::integer)
    limit %(limit)s
    for update skip locked
), gone as (
    delete from webhook_outbox o using old where o.tenant = %(tenant)s and o.id = old.id returning 1
)
select count(*) as trimmed from gone
