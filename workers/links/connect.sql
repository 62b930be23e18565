-- name: remove_tombstones
-- Let these pairs be linked again.
delete from link_tombstones t
using unnest(%(lows)s::uuid[], %(highs)s::uuid[]) as wanted (low, high)
where t.tenant = %(tenant)s and t.low_id = wanted.low and t.high_id = wanted.high

-- name: waiting_at
-- How many links wait for each of these memories.
select wanted.id, count(*) as links
from unnest(%(ids)s::uuid[]) as wanted (id)
join deferred_links d on d.tenant = %(tenant)s and (d.source_id = wanted.id or d.target_id = wanted.id)
group by wanted.id

-- name: insert_deferred
-- Let a link wait for its ends.
insert into deferred_links (id, tenant, source_id, target_id, request, principal, command_id, item)
values (
    %(id)s, %(tenant)s, %(source)s, %(target)s, %(request)s, %(principal)s, %(command_id)s, %(item)s
)
