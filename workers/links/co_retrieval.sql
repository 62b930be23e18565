-- name: count_co_retrieved
-- Count on the links of pairs that searches found together, which is a use of them. A link that somebody is changing is
-- left out: waiting for it is worth less than what is counted.
with given as (
    select * from unnest(%(lows)s::uuid[], %(highs)s::uuid[], %(times)s::integer[]) as given (low, high, times)
), free as materialized (
    select e.id, given.times
    from given
    join edges e on e.source_id = given.low and e.target_id = given.high
    where e.tenant = %(tenant)s and e.layer = 'association' and e.relation <> 'supersedes'
    order by e.id
    for no key update of e skip locked
)
update edges e set reinforcement_count = e.reinforcement_count + free.times, last_active_hours = {clock}
from free
where e.tenant = %(tenant)s and e.id = free.id

-- name: note_co_retrieved
-- Note in which sessions pairs that are not linked were found together; of pairs that may be. Which are to be linked now?
with given as (
    select low, high, array_agg(distinct instance) as instances
    from unnest(%(lows)s::uuid[], %(highs)s::uuid[], %(instances)s::text[]) as given (low, high, instance)
    group by low, high
), there as materialized (
    select n.id from nodes n
    where n.tenant = %(tenant)s and n.id in (select low from given union select high from given)
    order by n.id
    for key share
), noted as (
    insert into co_retrievals (tenant, low_id, high_id, instances)
    select %(tenant)s, given.low, given.high, given.instances[:3]
    from given
    where given.low in (select id from there) and given.high in (select id from there)
        and not exists (
            select from edges e
            where e.tenant = %(tenant)s and e.layer = 'association' and e.source_id = given.low
                and e.target_id = given.high)
        and not exists (
            select from link_tombstones t
            where t.tenant = %(tenant)s and t.low_id = given.low and t.high_id = given.high)
    order by given.low, given.high
    on conflict (tenant, low_id, high_id) do update set
        instances = first_distinct(co_retrievals.instances || excluded.instances, 3),
        seen_at = excluded.seen_at
    returning low_id, high_id, cardinality(instances) >= 3 as ripe
)
select low_id, high_id from noted where ripe

-- name: forget_co_retrieved
-- Begin anew with pairs that were linked, or could not be.
delete from co_retrievals c
using unnest(%(lows)s::uuid[], %(highs)s::uuid[]) as given (low, high)
where c.tenant = %(tenant)s and c.low_id = given.low and c.high_id = given.high

-- name: trim_co_retrieved
-- Forget pairs that nobody has found together for so long.
with old as (
    select low_id, high_id from co_retrievals
    where tenant = %(tenant)s and seen_at < now() - make_interval(days => %(days)s)
    limit %(limit)s
), gone as (
    delete from co_retrievals c using old
    where c.tenant = %(tenant)s and c.low_id = old.low_id and c.high_id = old.high_id
    returning 1
)
select count(*) as trimmed from gone
