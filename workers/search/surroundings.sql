-- name: plan_once
-- For what follows in this transaction: lookups by key, whose plan is the same whatever is looked up, so it is made once
-- per session (which spares half of their time); without full scans, since the tables may be nearly empty at that moment.
select set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true)

-- name: search_surroundings
-- What lies around the best candidates: the links (but those of similarity) of the first few of them, %(seeds)s, to
-- memories that the search may find; those memories, measured as candidates are; how useful all of them proved and for
-- how long they lay idle. As three JSON texts in the order of the fields of Reached, Candidates and Known. %(first)s and
-- %(last)s are the partitions one by one: a plan that is kept leaves the other one out by single values, not by an array.
with clock as materialized (
    select {clock} as hours
), link as materialized (
    select
        l.seed, l.relation, l.weight, l.origin, l.used, m.sector, m.confidence, m.active_hours, {candidate},
        case when m.model_id = %(model_id)s then {distance} end as distance
    from (
        select e.source_id as seed, e.target_id as other, e.relation, e.weight, e.origin,
            greatest(e.last_active_hours, e.decayed_active_hours) as used
        from edges e
        where e.source_id = any(%(seeds)s::uuid[]) and e.namespace = %(namespace)s and e.layer = 'association'
        union all
        select e.target_id, e.source_id, e.relation, e.weight, e.origin,
            greatest(e.last_active_hours, e.decayed_active_hours)
        from edges e
        where e.target_id = any(%(seeds)s::uuid[]) and e.namespace = %(namespace)s and e.layer = 'association'
    ) l
    join memories m on m.node_id = l.other
    where l.relation <> 'supersedes' and l.origin <> 'similarity' and {chosen} and m.state = 'active'
        and m.partition in (%(first)s, %(last)s)
), linked as (
    select distinct on (id) *, null::float8 as lexical from link
), known as (
    select m.node_id as id, m.sector, m.confidence, m.active_hours
    from memories m
    where m.node_id = any(%(best)s::uuid[]) and m.namespace = %(namespace)s and m.partition in (%(first)s, %(last)s)
    union all
    select id, sector, confidence, active_hours from linked where id <> all(%(best)s::uuid[])
)
select
    (select json_agg(json_build_array(seed, id, relation, weight, origin, clock.hours - used))::text
     from link, clock) as links,
    (select json_build_array({columns})::text from linked having count(*) > 0) as linked,
    (select json_build_array(json_agg(k.id), json_agg(coalesce(k.sector, 'semantic')), json_agg(k.confidence),
        json_agg(coalesce(u.helped, 0)), json_agg(coalesce(u.hindered, 0)),
        json_agg(clock.hours - greatest(k.active_hours, u.last_active_hours)))::text
     from known k
     left join memory_usage u on u.node_id = k.id and u.namespace = %(namespace)s
     cross join clock
     having count(*) > 0) as known
