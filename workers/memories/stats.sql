-- name: memory_counts
-- How many memories a namespace holds, by everything that stats tell apart.
select m.partition, case when m.sector_source = 'none' then 'none' else coalesce(m.sector, 'semantic') end as sector,
    {state} as state, {superseded} as superseded,
    count(*) as memories
from memories m
where m.tenant = %(tenant)s
group by 1, 2, 3, 4

-- name: project_counts
-- How many memories of both partitions each project has that has any in these, those with most in these first; null:
-- those of none.
select m.project, count(*) as memories, count(*) filter (where m.partition = 'untrusted') as untrusted_count,
    count(*) over () as projects
from memories m
where m.tenant = %(tenant)s
group by m.project
having count(*) filter (where m.partition = any(%(partitions)s)) > 0
order by count(*) filter (where m.partition = any(%(partitions)s)) desc, m.project nulls first
limit %(most)s

-- name: vectors_in_namespace
-- How many memories of a namespace have a vector, and how many of these one of this model.
select count(*) as total, count(*) filter (where e.name = %(name)s and e.sha256 = %(sha256)s) as done
from memories m
join embedding_models e on e.id = m.model_id
where m.tenant = %(tenant)s

-- name: edge_counts
-- How many edges of each kind a namespace holds, the commonest kinds; what is left over is counted together. What
-- somebody called a link of an untrusted memory is untrusted text, which nobody here has asked for; only links with names
-- of their own are looked at for that.
with kind as (
    select e.layer, e.origin,
        case when e.layer = 'association' and e.relation <> all(%(relations)s) and exists (
            select from nodes n
            where n.tenant = %(tenant)s and n.id in (e.source_id, e.target_id) and n.partition = 'untrusted'
        ) then %(custom)s else e.relation end as relation,
        count(*) as edges
    from edges e
    where e.tenant = %(tenant)s
    group by 1, 2, 3
), placed as (
    select *, row_number() over (order by edges desc, layer, origin, relation) as place from kind
)
select layer, origin, case when place <= %(kinds)s then relation else %(custom)s end as relation,
    sum(edges)::bigint as edges
from placed
group by 1, 2, 3
order by 1, 2, 3
