-- fragment: ground_key
-- What ground_keys has of the memories %(ids)s.
(select array_agg(to_hex(%(tenant)s::integer) || ':' || given.id) from unnest(%(ids)s::uuid[]) as given (id))

-- name: lock_grounds
-- Keep memories from being hidden or withdrawn before what rests on them is there to be seen, in the order of all writers.
select n.id from nodes n
where n.tenant = %(tenant)s and n.id = any(%(ids)s)
order by n.id
for share

-- name: grounds
-- What decides about memories that others rest on: trust, and whether they hold.
select m.node_id as id, m.partition, m.verification, {withdrawn} as withdrawn, not {holds_now} as ended
from unnest(%(ids)s::uuid[]) as given (id)
join memories m on m.tenant = %(tenant)s and m.node_id = given.id

-- fragment: stale
-- Whether a memory m rests on what is not as it was: a comparison has found so, or a memory that it cites holds no longer.
(m.evidence @? '$[*] ? (!exists (@.memory_id) && (@.state == "changed" || @.state == "gone"))' or exists (
    select
    from jsonb_array_elements(m.evidence) as cited
    where cited ? 'memory_id' and not exists (
        select from memories_in_namespace m
        where m.tenant = %(tenant)s and m.node_id = (cited ->> 'memory_id')::uuid and not {withdrawn} and {holds_now}
    )
))

-- name: resting_on
-- What rests on these memories, is none of them, and is not withdrawn itself, the newest first.
select m.node_id as id, count(*) over () as resting
from memories_in_namespace m
where m.tenant = %(tenant)s and m.evidence @? '$[*].memory_id'
    and ground_keys(m.tenant, m.evidence) && {ground_key}
    and m.node_id <> all(%(ids)s::uuid[]) and not {withdrawn}
order by m.node_id desc
limit %(limit)s

-- name: keep_found
-- Keep what a comparison has found of a memory's evidence. What is said of the memory is as it was: so is its time.
update memories set evidence = %(evidence)s
where tenant = %(tenant)s and node_id = %(id)s
returning node_id
