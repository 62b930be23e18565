-- name: memory_counts
-- How many memories a namespace holds, by everything that stats tell apart.
select m.partition, coalesce(m.sector, 'semantic') as sector, m.state, m.superseded_by is not null as superseded,
    count(*) as memories
from memories m
where m.namespace = %(namespace)s
group by 1, 2, 3, 4

-- name: edge_counts
-- How many edges of each kind a namespace holds.
select e.layer, e.origin, e.relation, count(*) as edges
from edges e
where e.namespace = %(namespace)s
group by 1, 2, 3
order by 1, 2, 3
