-- name: archive_expired
-- Archive memories whose time has passed, the first to expire first; those that somebody is busy with are left for later.
with due as (
    select m.node_id, m.partition, m.state
    from memories m
    where m.tenant = %(tenant)s and m.expires_at is not null and m.expires_at <= now() and m.state <> 'archived'
    order by m.expires_at
    limit %(limit)s
    for no key update skip locked
)
update memories m set state = 'archived', updated_at = now()
from due
where m.tenant = %(tenant)s and m.node_id = due.node_id and m.partition = due.partition
returning m.node_id as id, due.state, m.expires_at

-- name: give_expiry
-- Let memories that a rule of retention is about, and that have no time to expire, expire after so long from now: a few
-- from an id on. Those that somebody is busy with are left for the next time. The last one found is told where there may be
-- more.
with found as materialized (
    select m.node_id
    from memories_in_namespace m
    where m.tenant = %(tenant)s and m.node_id > %(after)s and m.expires_at is null and m.state <> 'archived'
        and (%(source_type)s::text is null or m.source_type = %(source_type)s)
        and (%(tags)s::text[] is null or {tagged})
    order by m.node_id
    limit %(limit)s
), free as (
    select m.node_id, m.partition
    from memories m
    join found on found.node_id = m.node_id
    where m.tenant = %(tenant)s and m.expires_at is null
    for no key update of m skip locked
), given as (
    update memories m set expires_at = now() + %(kept_for)s::interval
    from free
    where m.tenant = %(tenant)s and m.node_id = free.node_id and m.partition = free.partition
    returning m.node_id
)
select case when count(*) = %(limit)s then (array_agg(found.node_id order by found.node_id desc))[1] end as last
from found
