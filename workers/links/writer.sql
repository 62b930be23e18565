-- name: lock_links
-- Lock the links of these pairs against whoever changes links without holding their ends.
select e.id
from edges e
join unnest(%(lows)s::uuid[], %(highs)s::uuid[]) as wanted (low, high)
    on e.source_id = wanted.low and e.target_id = wanted.high
where e.namespace = %(namespace)s and e.layer = 'association'
order by e.id
for no key update of e

-- name: links_at
-- The links of memories, a row for each of their ends that is one of these: does it count there, since the other end is
-- active? Links of supersessions count nowhere, and are told only when both ends are asked for.
select
    e.end_id, e.id, e.source_id, e.target_id, e.relation, e.weight, e.origin, e.note, e.reinforcement_count,
    e.declared_from, o.node_id is not null and e.relation <> 'supersedes' as counts
from (
    select e.*, e.source_id as end_id, e.target_id as other_id from edges e where e.source_id = any(%(ids)s)
    union all
    select e.*, e.target_id as end_id, e.source_id as other_id from edges e where e.target_id = any(%(ids)s)
) e
left join memories o on o.node_id = e.other_id and o.namespace = %(namespace)s and o.state = 'active'
    and o.superseded_by is null and o.verification <> 'rejected'
where e.namespace = %(namespace)s and e.layer = 'association'
    and (e.relation <> 'supersedes' or e.other_id = any(%(ids)s))

-- name: insert_links
-- Make links.
insert into edges (
    id, namespace, layer, source_id, target_id, relation, weight, origin, note, reinforcement_count, declared_from,
    last_active_hours
)
select
    given.id, %(namespace)s, 'association', given.low, given.high, given.relation, given.weight, given.origin,
    given.note, given.reinforcement_count, given.declared_from,
    coalesce((select active_hours from namespaces where namespace = %(namespace)s), 0)
from unnest(
    %(ids)s::uuid[], %(lows)s::uuid[], %(highs)s::uuid[], %(relations)s::text[], %(weights)s::double precision[],
    %(origins)s::text[], %(notes)s::text[], %(counts)s::integer[], %(declared)s::uuid[]
) as given (id, low, high, relation, weight, origin, note, reinforcement_count, declared_from)

-- name: update_links
-- Change links, which counts as a use of them.
update edges e set
    relation = given.relation, weight = given.weight, origin = given.origin, note = given.note,
    reinforcement_count = given.reinforcement_count, updated_at = now(),
    last_active_hours = coalesce((select active_hours from namespaces where namespace = %(namespace)s), 0)
from unnest(
    %(ids)s::uuid[], %(relations)s::text[], %(weights)s::double precision[], %(origins)s::text[], %(notes)s::text[],
    %(counts)s::integer[]
) as given (id, relation, weight, origin, note, reinforcement_count)
where e.namespace = %(namespace)s and e.id = given.id

-- name: delete_links
-- Remove links.
delete from edges where namespace = %(namespace)s and layer = 'association' and id = any(%(ids)s)

-- name: tombstones
-- Which of these pairs must not be linked by automatic writers.
select t.low_id, t.high_id
from link_tombstones t
join unnest(%(lows)s::uuid[], %(highs)s::uuid[]) as wanted (low, high) on t.low_id = wanted.low and t.high_id = wanted.high
where t.namespace = %(namespace)s

-- name: remove_tombstones
-- Let these pairs be linked again.
delete from link_tombstones t
using unnest(%(lows)s::uuid[], %(highs)s::uuid[]) as wanted (low, high)
where t.namespace = %(namespace)s and t.low_id = wanted.low and t.high_id = wanted.high

-- name: insert_tombstone
-- Keep automatic writers from making a link again.
insert into link_tombstones (namespace, low_id, high_id) values (%(namespace)s, %(low)s, %(high)s)
on conflict do nothing

-- name: add_outcome
-- Add what memories, which are locked, have done for or against an outcome; return what they are now.
insert into memory_usage (node_id, namespace, helped, hindered)
select given.id, %(namespace)s, %(helped)s, %(hindered)s
from unnest(%(ids)s::uuid[]) as given (id)
order by given.id
on conflict (node_id) do update set
    helped = memory_usage.helped + excluded.helped, hindered = memory_usage.hindered + excluded.hindered
returning node_id as id, helped, hindered

-- name: confidences
-- What the usefulness of memories begins with.
select m.node_id as id, m.confidence
from memories m
where m.namespace = %(namespace)s and m.node_id = any(%(ids)s)

-- name: link_notes
-- The notes of the links of these pairs, or of those that a command lets wait.
select distinct on (noted.low, noted.high) noted.low, noted.high, noted.note
from (
    select e.source_id as low, e.target_id as high, e.note, 0 as later
    from edges e
    where e.namespace = %(namespace)s and e.layer = 'association'
    union all
    select least(d.source_id, d.target_id), greatest(d.source_id, d.target_id), d.request ->> 'note', 1
    from deferred_links d
    where d.namespace = %(namespace)s and d.command_id = %(command_id)s
) noted
join unnest(%(lows)s::uuid[], %(highs)s::uuid[]) as wanted (low, high)
    on noted.low = wanted.low and noted.high = wanted.high
order by noted.low, noted.high, noted.later
