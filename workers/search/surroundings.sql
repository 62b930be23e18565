-- name: search_around
-- What lies around the best candidates: the namespace's clock, the links (but those of similarity) of the first few of
-- them, %(seeds)s, and how useful they and the other ends of those links proved. As JSON texts.
with link as materialized (
    select e.source_id as seed, e.target_id as other, e.relation, e.weight, e.origin,
        greatest(e.last_active_hours, e.decayed_active_hours) as used
    from edges e
    where e.source_id = any(%(seeds)s::uuid[]) and e.tenant = %(tenant)s and e.layer = 'association'
        and e.relation <> 'supersedes' and e.origin <> 'similarity'
    union all
    select e.target_id, e.source_id, e.relation, e.weight, e.origin,
        greatest(e.last_active_hours, e.decayed_active_hours)
    from edges e
    where e.target_id = any(%(seeds)s::uuid[]) and e.tenant = %(tenant)s and e.layer = 'association'
        and e.relation <> 'supersedes' and e.origin <> 'similarity'
)
select
    {clock} as hours,
    (select json_agg(json_build_array(seed, other, relation, weight, origin, used))::text from link) as links,
    (select json_agg(json_build_array(u.node_id, u.helped, u.hindered, u.last_active_hours))::text
     from (select unnest(%(best)s::uuid[]) as id union select other from link) wanted
     join memory_usage u on u.node_id = wanted.id and u.tenant = %(tenant)s) as usage

-- name: search_linked
-- Those of some memories that the search may find, measured as candidates are.
{as_json}
from (
    select {candidate}, null::float8 as lexical, case when m.model_id = %(model_id)s then {distance} end as distance
    from memories m
    where m.node_id = any(%(ids)s::uuid[]) and {chosen} and m.state = 'active' and m.partition in (%(first)s, %(last)s)
) found

-- name: visible_by_id
-- Those of some memories that are to be shown. %(first)s and %(last)s are the partitions one by one: a plan that is kept
-- leaves the other one out by single values, not by an array.
select {memory_columns}
from {memory_tables}
where {visible} and m.partition in (%(first)s, %(last)s) and n.id = any(%(ids)s::uuid[])
