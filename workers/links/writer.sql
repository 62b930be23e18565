-- name: decay_links
-- Of the next links of a namespace, let those decay that no agent asserted and nobody used, by the active hours since
-- their last use or decay; remove those that weigh next to nothing and were never counted. A link that somebody is
-- changing is left for the next time. Tells how many were looked at, decayed and removed, and where to go on.
with now as (
    select {clock} as hours
), looked as materialized (
    select e.id, e.source_id, e.target_id
    from edges e
    where e.tenant = %(tenant)s and e.layer = 'association'
        and (e.source_id, e.target_id) > (%(after_source)s::uuid, %(after_target)s::uuid)
    order by e.source_id, e.target_id
    limit %(limit)s
), due as materialized (
    select
        e.id, e.reinforcement_count,
        -- After 100 half-lives nothing is left; long after, power() would refuse to say how little.
        e.weight * power(0.5, least(100, greatest(0, now.hours - greatest(e.last_active_hours, e.decayed_active_hours))
            / %(half_life)s::float8)) as weight
    from edges e, now
    where e.tenant = %(tenant)s and e.id in (select id from looked)
        and e.origin = any(%(origins)s::text[]) and e.relation = any(%(relations)s::text[])
        and (now.hours - greatest(e.last_active_hours, e.decayed_active_hours) >= %(step)s
            or (e.weight < %(least)s and e.reinforcement_count = 0))
    order by e.id
    for update of e skip locked
), gone as (
    delete from edges e using due
    where e.tenant = %(tenant)s and e.id = due.id and due.weight < %(least)s and due.reinforcement_count = 0
    returning 1
), decayed as (
    update edges e set weight = due.weight, decayed_active_hours = now.hours
    from due, now
    where e.tenant = %(tenant)s and e.id = due.id and not (due.weight < %(least)s and due.reinforcement_count = 0)
    returning 1
)
select
    (select count(*) from looked) as looked_at, (select count(*) from decayed) as decayed, (select count(*) from gone) as gone,
    (select source_id from looked order by source_id desc, target_id desc limit 1) as after_source,
    (select target_id from looked order by source_id desc, target_id desc limit 1) as after_target

-- name: clock_of
-- What a namespace's clock shows.
select {clock} as hours

-- name: note_decayed
-- Note at which hours of its clock a namespace's links have decayed.
update namespaces set links_decayed_at_hours = %(hours)s where tenant = %(tenant)s

-- name: linked_with
-- The memories that a memory has links with, those of its supersessions left out, and the one that replaced it.
select e.target_id as id from edges e
where e.tenant = %(tenant)s and e.layer = 'association' and e.source_id = %(id)s and e.relation <> 'supersedes'
union
select e.source_id from edges e
where e.tenant = %(tenant)s and e.layer = 'association' and e.target_id = %(id)s and e.relation <> 'supersedes'
union
select m.superseded_by from memories m
where m.tenant = %(tenant)s and m.node_id = %(id)s and m.superseded_by is not null
