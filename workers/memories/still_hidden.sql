-- name: behind
-- What memories that go had replaced. Where one of these was archived or rejected, or goes as well, it is nobody's truth
-- either, and what it had replaced stands in its place.
with recursive below as (
    select m.superseded_by as gone, m.node_id as id, {going} as going
    from memories m
    where m.tenant = %(tenant)s and m.superseded_by = any(%(ids)s)
    union
    select below.gone, m.node_id, {going}
    from below
    join memories m on m.tenant = %(tenant)s and m.superseded_by = below.id
    where below.going
)
select gone, id from below where not going order by gone, id limit %(limit)s

-- fragment: going
-- Whether a memory m was archived or rejected, or is one of those that go.
({withdrawn} or m.node_id = any(%(ids)s))

-- name: hidden_as_replaced
-- Which of these memories only a supersession hides.
select m.node_id as id
from memories m
where m.tenant = %(tenant)s and m.node_id = any(%(ids)s) and {superseded}
    and not {withdrawn}
order by m.node_id
