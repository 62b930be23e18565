-- name: unfinished_before
-- Of the memories stored before a moment, the newest so many, but not beyond so many that lack their links: which of them
-- lack a sector but could have one, which lack their links, whether there may be more, and where the next look goes on.
-- Reads the index of memories_recent, since none may hold what is looked for.
with seen as materialized (
    select
        m.node_id, m.created_at, (m.sector_source is null or m.standing_source is null) and m.model_id is not null as lacks_sector,
        {unlinked} as lacks_links
    from memories m
    where m.tenant = %(tenant)s
        and (m.created_at, m.node_id) < (%(before)s::timestamptz, %(before_id)s)
        and m.created_at < now() - make_interval(secs => %(older_than_s)s)
    order by m.created_at desc, m.node_id desc
    limit %(limit)s
), counted as (
    select *, count(*) filter (where lacks_links) over (order by created_at desc, node_id desc) as unlinked from seen
), kept as materialized (
    select * from counted where unlinked <= %(unlinked)s
), last as (
    select created_at, node_id from kept order by created_at, node_id limit 1
)
select
    coalesce((select array_agg(node_id order by created_at desc, node_id desc) from kept where lacks_sector), '{}')
        as without_sector,
    coalesce((select array_agg(node_id order by created_at desc, node_id desc) from kept where lacks_links), '{}')
        as without_links,
    (select count(*) from seen) = %(limit)s or (select count(*) from kept) < (select count(*) from seen) as more,
    (select created_at::text from last) as before,
    (select node_id from last) as before_id
