-- name: namespace_size
-- How many memories of these partitions somebody sees of a namespace (counted up to a limit), about how many all hold, and
-- whether some are outside the vector index since their text stands there often enough.
select
    exists (select from memories m where m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[]) and m.repeated)
        as has_repeated,
    (select count(*) from (
        select 1 as found from memories
        where tenant = %(tenant)s and partition = any(%(partitions)s::text[]) and owner is null
        limit %(limit)s
    ) counted) + (select count(*) from (
        select 1 as found from memories
        where tenant = %(tenant)s and partition = any(%(partitions)s::text[])
            and owner between %(owner_first)s and %(owner_last)s
        limit %(limit)s
    ) counted) as own,
    (select coalesce(sum(greatest(reltuples, 0)), 0)::bigint from pg_class
     where oid = any(array['memories_trusted'::regclass, 'memories_untrusted'::regclass]::oid[])
         and relname = any(select 'memories_' || unnest(%(partitions)s::text[]))) as everybodys

-- fragment: near_enough
-- The memories of `hit` that are not too far away, nearest first.
select {memory_columns}, hit.distance
from hit
join memories m on m.tenant = %(tenant)s and m.node_id = hit.node_id and m.partition = %(partition)s
join nodes n on n.tenant = m.tenant and n.id = m.node_id and n.partition = m.partition
left join memory_usage u on u.tenant = m.tenant and u.node_id = m.node_id
where hit.distance <= %(farthest)s
order by hit.distance, m.node_id

-- name: nearest_exact
-- The nearest memories to a vector among all of a namespace; adding 0 keeps the planner off the vector index. The partition
-- by itself, since a plan that is kept leaves no other one out of an array.
with hit as materialized (
    select m.node_id, (m.embedding::halfvec({dimensions}) <=> %(embedding)s::halfvec({dimensions})) + 0 as distance
    from memories m
    where {visible} and {in_project} and m.partition = %(partition)s and m.state = 'active' and m.model_id = %(model_id)s
    order by 2
    limit %(k)s
)
{near_enough}

-- fragment: of_model
-- Whether a memory m of one partition is active and has a vector of one model.
m.partition = %(partition)s and m.state = 'active' and m.model_id = {model}

-- name: nearest_by_index
-- The same by the vector index, which goes on until it has enough of them; its order is only nearly right. What it does
-- not know yet is scanned, of equal vectors that it does not take any more a few are compared, and where it gives fewer than
-- are wanted all are. A plan that is kept needs the model's number to see that its index serves, and
-- `without_sorting` to take it.
with recursive {repeated_key}, indexed as materialized (
    select m.node_id, m.embedding::halfvec({dimensions}) <=> %(embedding)s::halfvec({dimensions}) as distance
    from memories m
    where {visible} and {in_project} and {of_model} and {in_index}
    order by m.embedding::halfvec({dimensions}) <=> %(embedding)s::halfvec({dimensions})
    limit %(k)s
), loaded as materialized (
    select m.node_id, (m.embedding::halfvec({dimensions}) <=> %(embedding)s::halfvec({dimensions})) + 0 as distance
    from memories m
    where {visible} and {in_project} and {of_model} and {outside_index}
    order by 2
    limit %(k)s
), repeated as materialized (
    select m.node_id, (m.embedding::halfvec({dimensions}) <=> %(embedding)s::halfvec({dimensions})) + 0 as distance
    from repeated_key k
    cross join lateral (
        select m.node_id, m.embedding from memories m
        where {visible} and {in_project} and {of_model} and {of_repeated}
        order by m.node_id desc
        limit 2
    ) m
), completing as materialized (
    select m.node_id, (m.embedding::halfvec({dimensions}) <=> %(embedding)s::halfvec({dimensions})) + 0 as distance
    from memories m
    where (select count(*) from indexed) < %(k)s and {visible} and {in_project} and {of_model} and not m.repeated
    order by 2
    limit %(k)s
), hit as materialized (
    select *
    from (
        select * from indexed union select * from loaded union select * from repeated union select * from completing
    ) known
    order by distance
    limit %(k)s
)
{near_enough}

-- name: set_ef_search
-- How many candidates the vector index keeps in this transaction.
select set_config('hnsw.ef_search', %(ef_search)s, true)
