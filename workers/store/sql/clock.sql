-- name: make_clock
-- Make the namespace's row if it holds nothing yet.
insert into namespaces (namespace) values (%(namespace)s) on conflict do nothing

-- name: lock_clock
-- Lock a namespace's clock, in a statement of its own so that the next one sees what the last holder has written.
select active_hours from namespaces where namespace = %(namespace)s for no key update

-- name: tick
-- Let the clock gain the time of these intervals that it has not gained already. What was in use is remembered for a
-- day, and in at most so many pieces; older times are left out, since nobody knows any more whether they were gained.
with told as (
    select range_agg(tstzrange(to_timestamp(since / 1000.0), to_timestamp(until / 1000.0))) as intervals
    from unnest(%(since)s::bigint[], %(until)s::bigint[]) as given (since, until)
    where since < until
), fresh as (
    select
        n.in_use,
        told.intervals * multirange(tstzrange(n.in_use_since, null)) - n.in_use as gained
    from namespaces n, told
    where n.namespace = %(namespace)s
), later as (
    select gained, in_use + gained as in_use from fresh
), kept as (
    select greatest(
        upper(later.in_use) - interval '1 day',
        (select lower(piece) from unnest(later.in_use) as piece order by piece desc offset %(pieces)s - 1 limit 1)
    ) as since
    from later
)
update namespaces n set
    active_hours = n.active_hours + coalesce(
        (select sum(extract(epoch from upper(piece) - lower(piece))) from unnest(later.gained) as piece), 0) / 3600,
    in_use = later.in_use * multirange(tstzrange(kept.since, null)),
    in_use_since = case
        when kept.since > lower(later.in_use) then greatest(n.in_use_since, kept.since) else n.in_use_since end
from later, kept
where n.namespace = %(namespace)s and not isempty(later.gained)
returning n.active_hours
