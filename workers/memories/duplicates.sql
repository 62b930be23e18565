-- fragment: telling
-- Whether the text of a memory m is long enough to say something of its own: "ok, thanks" is said again by chance. Bytes,
-- since seven Chinese characters say as much as twenty-four Latin ones.
octet_length(m.content) >= 24

-- fragment: kind
-- Where a memory m belongs and when it holds: only memories of one kind can be duplicates of each other.
md5(row(
    m.partition, m.project, m.thread, m.position, m.speaker, m.occurred_at, m.valid_from, m.valid_until, m.expires_at, m.tags
)::text)

-- fragment: same_turn
-- Whether a memory m is a certain turn of a conversation: a short one too is there twice only if it was stored twice.
(m.thread is not null and m.position is not null)

-- name: duplicates_texts
-- The next active memories whose texts are compared with equal ones, by id. The worker normalises them: that takes PostgreSQL
-- .2 to .6 ms for 2 KB.
select m.node_id as id, {kind} as kind, m.content
from memories m
where {visible} and m.state = 'active' and ({telling} or {same_turn}) and m.node_id > %(after_id)s
order by m.node_id
limit %(limit)s

-- name: duplicates_next
-- The next active memories whose vectors are to be looked up, by id.
select m.node_id as id, m.partition, e.dimensions
from memories m
join embedding_models e on e.id = m.model_id
where {visible} and m.state = 'active' and m.model_id = %(model_id)s and {telling} and m.node_id > %(after_id)s
order by m.node_id
limit %(limit)s

-- fragment: looked_up
-- The memories %(ids)s, whose neighbours are looked for.
select m.node_id, {kind} as kind, m.embedding::halfvec({dimensions}) as embedding
from memories m
where m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[]) and m.node_id = any(%(ids)s)
    and m.model_id = %(model_id)s

-- fragment: neighbor
-- A memory m that may be a neighbour of a looked-up memory a.
{visible} and m.state = 'active' and m.model_id = %(model_id)s and m.node_id <> a.node_id

-- name: duplicates_near_exact
-- The nearest memories of the same kind, or of any, to each of these among all of its partition; adding 0 keeps the planner off the
-- vector index. One statement for all of them: it is planned once, and travels once.
select a.node_id as id, found.node_id as other_id
from ({looked_up}) a
cross join lateral (
    select m.node_id, (m.embedding::halfvec({dimensions}) <=> a.embedding) + 0 as distance
    from memories m
    where {neighbor}
    order by 2
    limit %(k)s
) found
join memories m on m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[]) and m.node_id = found.node_id
where found.distance <= %(farthest)s and (%(of_any_kind)s or ({telling} and {kind} = a.kind))

-- name: duplicates_near_by_index
-- The same by the vector index; what it does not know yet is scanned, and of equal vectors that it does not take any
-- more a few are compared. Where it gives fewer than are wanted all are.
with recursive {repeated_key}, few as materialized (
    select m.node_id, m.embedding
    from repeated_key k
    cross join lateral (
        select m.node_id, m.embedding from memories m
        where {visible} and m.state = 'active' and m.model_id = %(model_id)s and {of_repeated}
        order by m.node_id desc
        limit 2
    ) m
)
select a.node_id as id, found.node_id as other_id
from ({looked_up}) a
cross join lateral (
    with indexed as materialized (
        select m.node_id, m.embedding::halfvec({dimensions}) <=> a.embedding as distance
        from memories m
        where {neighbor} and {in_index}
        order by m.embedding::halfvec({dimensions}) <=> a.embedding
        limit %(k)s
    )
    select * from indexed
    union (
        select m.node_id, (m.embedding::halfvec({dimensions}) <=> a.embedding) + 0 as distance
        from memories m
        where {neighbor} and {outside_index}
        order by 2
        limit %(k)s
    ) union (
        select m.node_id, (m.embedding::halfvec({dimensions}) <=> a.embedding) + 0 as distance
        from few m
        where m.node_id <> a.node_id
        order by 2
        limit %(k)s
    ) union (
        select m.node_id, (m.embedding::halfvec({dimensions}) <=> a.embedding) + 0 as distance
        from memories m
        where (select count(*) from indexed) < %(k)s and {neighbor} and not m.repeated
        order by 2
        limit %(k)s
    )
) found
join memories m on m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[]) and m.node_id = found.node_id
where found.distance <= %(farthest)s and (%(of_any_kind)s or ({telling} and {kind} = a.kind))

-- name: duplicates_compared
-- What tells whether active memories are duplicates, and which of them is to stay. What somebody has chosen a sector for,
-- called a wish or none, linked, or brings again by its external_id, is `kept`.
select
    m.node_id as id, {kind} as kind, m.content, {telling} as is_telling, {telling} or {same_turn} as is_told,
    m.verification, m.created_at,
    case when m.model_id = %(model_id)s then halfvec_send(m.embedding) end as embedding,
    coalesce(m.sector_source = 'manual' or m.standing_source = 'given', false)
        or n.external_id is not null
        or exists (
            select from edges e
            where e.tenant = %(tenant)s and e.source_id = m.node_id and e.layer = 'association' and e.origin = 'agent'
                and e.relation <> 'supersedes'
        )
        or exists (
            select from edges e
            where e.tenant = %(tenant)s and e.target_id = m.node_id and e.layer = 'association' and e.origin = 'agent'
                and e.relation <> 'supersedes'
        ) as kept
from memories m
join nodes n on n.tenant = m.tenant and n.id = m.node_id and n.partition = m.partition
where {visible} and m.state = 'active' and m.node_id = any(%(ids)s)
