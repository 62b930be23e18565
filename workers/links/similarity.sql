-- fragment: unlinked
-- Whether a memory m may have similarity links and they are still to be made.
m.links_made_at is null and m.state = 'active' and {current}

-- name: unlinked_memories
-- Those of the given memories whose similarity links are still to be made. Rows of one page have different turns: see
-- workers/sectors/handlers.py.
select
    m.node_id as id, m.partition, m.owner, m.model_id, e.dimensions,
    row_number() over (partition by m.tableoid, (m.ctid::text::point)[0] order by m.node_id) as turn
from memories m
join embedding_models e on e.id = m.model_id
where m.tenant = %(tenant)s and m.node_id = any(%(ids)s) and {unlinked}
order by m.node_id

-- name: links_wait_at
-- Whether links wait at any of these memories.
select exists (
    select from deferred_links d
    where d.tenant = %(tenant)s and (d.source_id = any(%(ids)s) or d.target_id = any(%(ids)s))
) as waiting

-- name: stored_together
-- The nearest to each of these memories among those that were stored so shortly before or after it that neither store
-- saw the other. Of the rest of that time, the newest so many are compared.
with unlinked as materialized (
    select m.node_id, m.partition, m.created_at, m.embedding::halfvec({dimensions}) as embedding
    from memories m
    where m.tenant = %(tenant)s and m.node_id = any(%(ids)s) and m.model_id = %(model_id)s
), of_late as materialized (
    select m.node_id, m.partition, m.created_at, m.embedding::halfvec({dimensions}) as embedding
    from memories m
    where {visible} and m.state = 'active' and m.model_id = %(model_id)s
        and m.created_at >= (select min(created_at) from unlinked) - make_interval(secs => %(within_s)s)
        and m.created_at <= (select max(created_at) from unlinked) + make_interval(secs => %(within_s)s)
    order by m.created_at desc, m.node_id desc
    limit %(compared)s
), pair as materialized (
    select n.node_id as id, o.node_id as other_id, n.embedding <=> o.embedding as distance
    from unlinked n
    join of_late o on o.partition = n.partition and o.node_id <> n.node_id
        and o.created_at between n.created_at - make_interval(secs => %(within_s)s)
            and n.created_at + make_interval(secs => %(within_s)s)
)
select id, other_id, distance
from (
    select *, row_number() over (partition by id order by distance, other_id) as place
    from pair where distance <= %(farthest)s
) ranked
where place <= %(k)s

-- fragment: apart
-- The cosine distance of a memory m from the memory %(id)s.
m.embedding::halfvec({dimensions}) <=> (
    select o.embedding::halfvec({dimensions}) from memories o
    where o.tenant = %(tenant)s and o.node_id = %(id)s and o.model_id = %(model_id)s
)

-- name: neighbors_exact
-- The nearest memories to one of them among all of its partition; adding 0 keeps the planner off the vector index.
select found.node_id as other_id, found.distance
from (
    select m.node_id, ({apart}) + 0 as distance
    from memories m
    where {visible} and m.state = 'active' and m.model_id = %(model_id)s and m.node_id <> %(id)s
    order by 2
    limit %(k)s
) found
where found.distance <= %(farthest)s

-- name: neighbors_by_index
-- The same by the vector index; what else there is as in `nearest_by_index`.
with recursive {repeated_key}, indexed as materialized (
    select m.node_id, {apart} as distance
    from memories m
    where {visible} and m.state = 'active' and m.model_id = %(model_id)s and m.node_id <> %(id)s and {in_index}
    order by 2
    limit %(k)s
)
select found.node_id as other_id, found.distance
from (
    select * from indexed
    union (
        select m.node_id, ({apart}) + 0 as distance
        from memories m
        where {visible} and m.state = 'active' and m.model_id = %(model_id)s and m.node_id <> %(id)s and {outside_index}
        order by 2
        limit %(k)s
    ) union (
        select m.node_id, ({apart}) + 0 as distance
        from repeated_key k
        cross join lateral (
            select m.node_id, m.embedding from memories m
            where {visible} and m.state = 'active' and m.model_id = %(model_id)s and m.node_id <> %(id)s and {of_repeated}
            order by m.node_id desc
            limit 2
        ) m
        order by 2
        limit %(k)s
    ) union (
        select m.node_id, ({apart}) + 0 as distance
        from memories m
        where (select count(*) from indexed) < %(k)s and {visible} and m.state = 'active'
            and m.model_id = %(model_id)s and m.node_id <> %(id)s and not m.repeated
        order by 2
        limit %(k)s
    )
    order by distance
    limit %(k)s
) found
where found.distance <= %(farthest)s

-- name: note_links_made
-- Note that the similarity links of memories are made; it counts as no update.
update memories m set links_made_at = now()
where m.tenant = %(tenant)s and m.node_id = any(%(ids)s) and m.links_made_at is null
