-- name: node_by_name
-- The oldest node of a name, and how many there are.
select n.id, n.label, n.name, n.properties, n.created_at, n.updated_at,
    n.created_by, n.updated_by, count(*) over () as match_count
from nodes n
where n.tenant = %(tenant)s and n.partition = 'trusted' and n.name = %(name)s
    and (%(label)s::text is null or n.label = %(label)s)
order by n.created_at, n.id
limit 1

-- name: names_alike
-- Nodes whose name is the same in another case or label, or begins the same way, at most %(limit)s of each.
(
    select n.id, n.label, n.name
    from nodes_in_namespace n
    where n.tenant = %(tenant)s and n.partition = 'trusted' and lower(n.name) = lower(%(name)s)
    limit %(limit)s
)
union
(
    select n.id, n.label, n.name
    from nodes_in_namespace n
    where n.tenant = %(tenant)s and n.partition = 'trusted' and lower(n.name) like %(beginning)s
    order by lower(n.name) using ~<~
    limit %(limit)s
)

-- name: list_nodes
-- Named nodes in the order of their names, whatever their case, from below a place on. Edges are counted as counted_nodes does.
select n.id, n.label, n.name,
    (select count(*) from edges e where e.tenant = %(tenant)s and e.layer = 'knowledge' and e.source_id = n.id)
    + (select count(*) from edges e where e.tenant = %(tenant)s and e.layer = 'knowledge' and e.target_id = n.id
        and e.source_id <> n.id) as edge_count
from nodes_in_namespace n
where n.tenant = %(tenant)s and n.partition = 'trusted' and n.name is not null
    and lower(n.name) like lower(%(beginning)s) and (%(label)s::text is null or n.label = %(label)s)
    and (%(after)s::text is null or (lower(n.name) ~>=~ lower(%(after)s)
        and (lower(n.name) ~>~ lower(%(after)s) or n.id > %(after_id)s::uuid)))
order by lower(n.name) using ~<~, n.id
limit %(limit)s

-- name: nodes_drawn
-- The named nodes with most edges that hold, how many edges each has, and how many nodes there are.
with ends as materialized (
    select x.id, count(*) as edge_count
    from (
        select e.source_id as id from edges e
        where e.tenant = %(tenant)s and e.layer = 'knowledge' and {edge_holds}
        union all
        select e.target_id from edges e
        where e.tenant = %(tenant)s and e.layer = 'knowledge' and e.target_id <> e.source_id and {edge_holds}
    ) x
    group by x.id
)
select n.id, n.label, n.name, coalesce(ends.edge_count, 0) as edge_count, count(*) over () as node_count
from nodes_in_namespace n
left join ends on ends.id = n.id
where n.tenant = %(tenant)s and n.partition = 'trusted' and n.name is not null
    and (%(label)s::text is null or n.label = %(label)s)
order by edge_count desc, n.id
limit %(limit)s

-- name: edges_drawn
-- The heaviest edges that hold between these nodes.
select e.id, e.source_id, e.target_id, e.relation, e.weight
from edges e
where e.tenant = %(tenant)s and e.layer = 'knowledge' and e.source_id = any(%(ids)s) and e.target_id = any(%(ids)s)
    and {edge_holds}
order by e.weight desc, e.id
limit %(limit)s

-- name: edge_between_names
-- The oldest edge of a triple of names, and how many there are.
select {edge_columns}, count(*) over () as match_count
from {edges_between_names}
order by e.created_at, e.id
limit 1

-- name: homonyms
-- The nodes of a name, oldest first.
select n.id, n.label, n.name
from nodes n
where n.tenant = %(tenant)s and n.partition = 'trusted' and n.name = %(name)s
order by n.created_at, n.id
limit %(limit)s

-- name: edges_of_node
-- The edges of a node that hold, heaviest first, from below a position on; one that leads from the node to itself once. One more
-- than a page shows whether there is another.
with page as (
    (
        select e.*
        from edges e
        where %(outgoing)s::boolean and e.layer = 'knowledge' and e.source_id = %(id)s and e.tenant = %(tenant)s
            and (%(relation)s::text is null or e.relation = %(relation)s)
            and {edge_holds}
            and (%(after_weight)s::double precision is null or e.weight <= %(after_weight)s::double precision
                and (e.weight < %(after_weight)s::double precision or e.id > %(after_id)s::uuid))
        order by e.weight desc, e.id
        limit %(limit)s
    )
    union all
    (
        select e.*
        from edges e
        where %(incoming)s::boolean and e.layer = 'knowledge' and e.target_id = %(id)s and e.tenant = %(tenant)s
            and not (%(outgoing)s::boolean and e.source_id = e.target_id)
            and (%(relation)s::text is null or e.relation = %(relation)s)
            and {edge_holds}
            and (%(after_weight)s::double precision is null or e.weight <= %(after_weight)s::double precision
                and (e.weight < %(after_weight)s::double precision or e.id > %(after_id)s::uuid))
        order by e.weight desc, e.id
        limit %(limit)s
    )
    order by weight desc, id
    limit %(limit)s
)
select {edge_columns}, s.label as source_label, s.name as source_name, t.label as target_label, t.name as target_name
from page e
join nodes s on s.id = e.source_id and s.tenant = %(tenant)s and s.partition = 'trusted'
join nodes t on t.id = e.target_id and t.tenant = %(tenant)s and t.partition = 'trusted'
order by e.weight desc, e.id

-- name: named_edges
-- Knowledge edges by their ids, with the names of their ends.
select {edge_columns}, s.label as source_label, s.name as source_name, t.label as target_label, t.name as target_name
from edges e
join nodes s on s.id = e.source_id and s.tenant = %(tenant)s and s.partition = 'trusted'
join nodes t on t.id = e.target_id and t.tenant = %(tenant)s and t.partition = 'trusted'
where e.tenant = %(tenant)s and e.layer = 'knowledge' and e.id = any(%(ids)s)

-- name: edge_names
-- What names knowledge edges: relation and ends. Their properties may be large.
select e.id, e.relation, s.label as source_label, s.name as source_name, t.label as target_label, t.name as target_name
from edges e
join nodes s on s.id = e.source_id and s.tenant = %(tenant)s and s.partition = 'trusted'
join nodes t on t.id = e.target_id and t.tenant = %(tenant)s and t.partition = 'trusted'
where e.tenant = %(tenant)s and e.layer = 'knowledge' and e.id = any(%(ids)s)

-- name: counted_nodes
-- Named nodes by their ids, and how many edges each has; an edge from a node to itself is one.
select n.id, n.label, n.name,
    (select count(*) from edges e where e.tenant = %(tenant)s and e.layer = 'knowledge' and e.source_id = n.id)
    + (select count(*) from edges e where e.tenant = %(tenant)s and e.layer = 'knowledge' and e.target_id = n.id
        and e.source_id <> n.id) as edge_count
from nodes n
where n.tenant = %(tenant)s and n.partition = 'trusted' and n.id = any(%(ids)s)

-- fragment: step
-- The edges e that hold and lead on from a frontier f of nodes, at most %(per_node)s of each node and direction, heaviest first,
-- nodes in the given order. The node n at the other end has to be visible; `limit 1` keeps the planner from beginning
-- with all nodes, which it otherwise does while it has no statistics (11 s instead of 3 ms for 10,000).
unnest(%(frontier)s::uuid[]) with ordinality as f (id, place)
cross join lateral (
    (
        select e.id, e.target_id as far, e.relation, e.weight, e.memory_sector, e.last_active_hours, e.valid_from,
            e.valid_until, true as outgoing
        from edges e
        where %(outgoing)s::boolean and e.layer = 'knowledge' and e.source_id = f.id and e.tenant = %(tenant)s
            and (%(relation)s::text is null or e.relation = %(relation)s)
            and (%(sectors)s::text[] is null or coalesce(e.memory_sector, 'semantic') = any(%(sectors)s::text[]))
            and {edge_holds}
        order by e.weight desc, e.id
        limit %(per_node)s
    )
    union all
    (
        select e.id, e.source_id as far, e.relation, e.weight, e.memory_sector, e.last_active_hours, e.valid_from,
            e.valid_until, false as outgoing
        from edges e
        where %(incoming)s::boolean and e.layer = 'knowledge' and e.target_id = f.id and e.tenant = %(tenant)s
            and (%(relation)s::text is null or e.relation = %(relation)s)
            and (%(sectors)s::text[] is null or coalesce(e.memory_sector, 'semantic') = any(%(sectors)s::text[]))
            and {edge_holds}
        order by e.weight desc, e.id
        limit %(per_node)s
    )
) as e
cross join lateral (
    select 1 as found from nodes n
    where n.id = e.far and n.tenant = %(tenant)s and n.partition = 'trusted' and n.name is not null
    limit 1
) as n
