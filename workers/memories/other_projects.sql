-- fragment: project_or_first
-- A project, or what comes before all others where it is null.
case when %(project)s::text is null then '' else %(project)s::text end

-- name: project_beside
-- Whether anything is in a project, null being known, and whether trusted memories are in others. Each is one look into
-- the index of projects: under row-level security a comparison with `coalesce` would have no index.
select json_build_object(
    'is_known', %(project)s::text is null
        or exists (select from memories m where m.tenant = %(tenant)s and m.project = %(project)s::text),
    'has_others', exists (
        select from memories m
        where m.tenant = %(tenant)s and m.partition = 'trusted' and m.project > {project_or_first}
    ) or exists (
        select from memories m
        where m.tenant = %(tenant)s and m.partition = 'trusted' and m.project < {project_or_first}
    )
)::text

-- name: projects_seen
-- The projects that a search may find trusted memories of, the first ones by name. It goes from one name to the next in
-- the index of projects, however many memories there are of each.
with recursive seen as (
    select (
        select m.project from memories m
        where {visible} and m.partition = 'trusted' and m.project is not null order by m.project limit 1
    ) as project, 1 as place
    union all
    select (
        select m.project from memories m
        where {visible} and m.partition = 'trusted' and m.project > seen.project order by m.project limit 1
    ), seen.place + 1
    from seen
    where seen.project is not null and seen.place < %(most)s
)
select project from seen where project is not null

-- name: listed_elsewhere
-- How many of the newest memories of a list each project has, null being none, the one with most first.
select l.project, count(*) as memories
from (
    select m.project from memories_in_namespace m where {listed} order by m.created_at desc limit %(most)s
) l
group by l.project
order by memories desc, l.project
