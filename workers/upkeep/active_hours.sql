-- name: lock_clock
-- Lock a namespace's clock, in a statement of its own so that the next one sees what the last holder has written.
select active_hours from namespaces where tenant = %(tenant)s for no key update

-- name: tick
-- Let the clock gain the time of these intervals that it has not gained already. What was in use is remembered for a
-- day, and in at most so many spans; older times are left out, since nobody knows any more whether they were gained.
-- No session tells of times more than a day ago: when these lie another day further back, Redis's clock was wrong and has
-- been set right, and what was in use by the wrong one is forgotten. Else the clock would stand still until then.
with told as (
    select range_agg(tstzrange(to_timestamp(since / 1000.0), to_timestamp(until / 1000.0))) as intervals
    from unnest(%(since)s::bigint[], %(until)s::bigint[]) as given (since, until)
    where since < until
), remembered as (
    select
        told.intervals,
        case when right_again then '{}' else n.in_use end as in_use,
        case when not right_again then n.in_use_since end as in_use_since
    from namespaces n, told, coalesce(upper(told.intervals) < n.in_use_since - interval '1 day', false) as right_again
    where n.tenant = %(tenant)s
), fresh as (
    select in_use, in_use_since, intervals * multirange(tstzrange(in_use_since, null)) - in_use as gained
    from remembered
), later as materialized (
    select gained, in_use + gained as in_use, in_use_since from fresh
), kept as materialized (
    select greatest(
        upper(later.in_use) - interval '1 day',
        (select lower(span) from unnest(later.in_use) as span order by span desc offset %(spans)s - 1 limit 1)
    ) as since
    from later
)
update namespaces n set
    active_hours = n.active_hours + coalesce(
        (select sum(extract(epoch from upper(piece) - lower(piece))) from unnest(later.gained) as piece), 0) / 3600,
    in_use = later.in_use * multirange(tstzrange(kept.since, null)),
    in_use_since = case
        when kept.since > lower(later.in_use) then greatest(later.in_use_since, kept.since)
        else later.in_use_since end
from later, kept
where n.tenant = %(tenant)s and not isempty(later.gained)
returning n.active_hours
