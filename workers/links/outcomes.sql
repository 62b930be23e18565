-- name: add_outcome
-- Add what memories, which are locked, have done for or against an outcome; return what they are now.
insert into memory_usage (node_id, tenant, helped, hindered)
select given.id, %(tenant)s, %(helped)s, %(hindered)s
from unnest(%(ids)s::uuid[]) as given (id)
order by given.id
on conflict (tenant, node_id) do update set
    helped = memory_usage.helped + excluded.helped, hindered = memory_usage.hindered + excluded.hindered
returning node_id as id, helped, hindered

-- name: confidences
-- What the usefulness of memories begins with.
select m.node_id as id, m.confidence
from unnest(%(ids)s::uuid[]) as given (id)
join memories m on m.tenant = %(tenant)s and m.node_id = given.id
