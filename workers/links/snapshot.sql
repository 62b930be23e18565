-- name: lock_links
-- Lock the links of these pairs against writers that change links without holding their ends.
select e.id
from edges e
join unnest(%(lows)s::uuid[], %(highs)s::uuid[]) as wanted (low, high)
    on e.source_id = wanted.low and e.target_id = wanted.high
where e.tenant = %(tenant)s and e.layer = 'association'
order by e.id
for no key update of e

-- name: links_at
-- The links of memories, a row for each of their ends that is one of these: does it count there, since the other end is
-- active? Links of supersessions count nowhere, and are told only when both ends are asked for.
select
    e.end_id, e.id, e.source_id, e.target_id, e.relation, e.weight, e.origin, e.note, e.reinforcement_count,
    e.declared_from, m.node_id is not null and e.relation <> 'supersedes' as counts
from (
    select e.*, e.source_id as end_id, e.target_id as other_id from edges e
    where e.tenant = %(tenant)s and e.source_id = any(%(ids)s)
    union all
    select e.*, e.target_id as end_id, e.source_id as other_id from edges e
    where e.tenant = %(tenant)s and e.target_id = any(%(ids)s)
) e
left join memories m on m.node_id = e.other_id and m.tenant = %(tenant)s and m.state = 'active'
    and {current}
where e.layer = 'association' and (e.relation <> 'supersedes' or e.other_id = any(%(ids)s))

-- name: insert_links
-- Make links.
insert into edges (
    id, tenant, layer, source_id, target_id, relation, weight, origin, note, reinforcement_count, declared_from,
    created_by, updated_by, owner, last_active_hours
)
select
    given.id, %(tenant)s, 'association', given.low, given.high, given.relation, given.weight, given.origin,
    given.note, given.reinforcement_count, given.declared_from,
    given.writer, given.writer, given.owner,
    coalesce((select active_hours from namespaces where tenant = %(tenant)s), 0)
from unnest(
    %(ids)s::uuid[], %(lows)s::uuid[], %(highs)s::uuid[], %(relations)s::text[], %(weights)s::double precision[],
    %(origins)s::text[], %(notes)s::text[], %(counts)s::integer[], %(declared)s::uuid[],
    %(writers)s::text[], %(owners)s::text[]
) as given (id, low, high, relation, weight, origin, note, reinforcement_count, declared_from, writer, owner)
returning id

-- name: update_links
-- Change links, which counts as a use of them.
update edges e set
    relation = given.relation, weight = given.weight, origin = given.origin, note = given.note,
    reinforcement_count = given.reinforcement_count, updated_at = now(),
    updated_by = given.writer,
    last_active_hours = coalesce((select active_hours from namespaces where tenant = %(tenant)s), 0)
from unnest(
    %(ids)s::uuid[], %(relations)s::text[], %(weights)s::double precision[], %(origins)s::text[], %(notes)s::text[],
    %(counts)s::integer[], %(writers)s::text[]
) as given (id, relation, weight, origin, note, reinforcement_count, writer)
where e.tenant = %(tenant)s and e.id = given.id

-- name: delete_links
-- Remove links.
delete from edges where tenant = %(tenant)s and layer = 'association' and id = any(%(ids)s)

-- name: tombstones
-- Which of these pairs must not be linked by automatic writers.
select t.low_id, t.high_id
from link_tombstones t
join unnest(%(lows)s::uuid[], %(highs)s::uuid[]) as wanted (low, high) on t.low_id = wanted.low and t.high_id = wanted.high
where t.tenant = %(tenant)s

-- name: replacements
-- What took the place of memories in the end, one replacement after the other; no row where that cannot be used. Each
-- step is taken once, so that a chain which somebody closed to a ring ends.
with recursive chain as (
    select m.node_id as id, m.superseded_by as next
    from unnest(%(ids)s::uuid[]) as given (id)
    join memories m on m.tenant = %(tenant)s and m.node_id = given.id
    union
    select chain.id, m.superseded_by
    from chain
    join memories m on m.tenant = %(tenant)s and m.node_id = chain.next
)
select chain.id, m.node_id as replacement
from chain
join memories m on m.tenant = %(tenant)s and m.node_id = chain.next
where {current}

-- name: links_of
-- The links of a memory whose other ends may be seen, heaviest first.
select
    m.node_id as memory_id, m.partition, left(m.content, %(beginning_chars)s) as beginning, e.relation, e.weight,
    e.note, e.origin, e.reinforcement_count,
    coalesce(e.declared_from = m.node_id, false) as incoming
from (
    select e.*, e.target_id as other from edges e where e.tenant = %(tenant)s and e.source_id = %(id)s
    union all
    select e.*, e.source_id as other from edges e where e.tenant = %(tenant)s and e.target_id = %(id)s
) e
join memories m on m.node_id = e.other
where e.layer = 'association' and {visible} and m.state = 'active'
order by e.weight desc, m.node_id
limit %(limit)s
