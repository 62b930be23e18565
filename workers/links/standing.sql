-- name: replacements
-- What took the place of memories in the end, one replacement after the other; no row where that cannot be used. Each
-- step is taken once, so that a chain which somebody closed to a ring ends.
with recursive chain as (
    select m.node_id as id, m.superseded_by as next
    from memories m
    where m.tenant = %(tenant)s and m.node_id = any(%(ids)s)
    union
    select chain.id, m.superseded_by
    from chain
    join memories m on m.tenant = %(tenant)s and m.node_id = chain.next
)
select chain.id, m.node_id as replacement
from chain
join memories m on m.tenant = %(tenant)s and m.node_id = chain.next
where {current}
