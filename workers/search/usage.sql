-- name: note_access
-- Count that memories were found, and when last; what was erased meanwhile is left out.
with there as materialized (
    select n.id from nodes n
    where n.tenant = %(tenant)s and n.id = any(%(ids)s::uuid[])
    order by n.id
    for key share
)
insert into memory_usage (node_id, tenant, access_count, accessed_at, last_active_hours)
select there.id, %(tenant)s, given.times, now(), {clock}
from there
join unnest(%(ids)s::uuid[], %(times)s::bigint[]) as given (id, times) on given.id = there.id
order by there.id
on conflict (tenant, node_id) do update set
    access_count = memory_usage.access_count + excluded.access_count,
    accessed_at = excluded.accessed_at,
    last_active_hours = excluded.last_active_hours
