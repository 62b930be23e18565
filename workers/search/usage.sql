-- name: note_access
-- Count that memories were found, and when last; what was erased meanwhile is left out.
insert into memory_usage (node_id, tenant, access_count, accessed_at, last_active_hours)
select n.id, n.tenant, given.times, now(), {clock}
from unnest(%(ids)s::uuid[], %(times)s::bigint[]) as given (id, times)
join nodes n on n.id = given.id and n.tenant = %(tenant)s
order by n.id
for key share of n
on conflict (tenant, node_id) do update set
    access_count = memory_usage.access_count + excluded.access_count,
    accessed_at = excluded.accessed_at,
    last_active_hours = excluded.last_active_hours
returning node_id
