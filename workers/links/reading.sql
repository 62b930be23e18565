-- name: links_of
-- The links of a memory whose other ends may be seen, heaviest first.
select
    m.node_id as memory_id, m.partition, left(m.content, %(beginning_chars)s) as beginning, e.relation, e.weight,
    e.note, e.origin, e.reinforcement_count,
    coalesce(e.declared_from = m.node_id, false) as incoming
from (
    select e.*, e.target_id as other from edges e where e.tenant = %(tenant)s and e.source_id = %(id)s
    union all
    select e.*, e.source_id as other from edges e where e.tenant = %(tenant)s and e.target_id = %(id)s
) e
join memories m on m.node_id = e.other
where e.layer = 'association' and {visible} and m.state = 'active'
order by e.weight desc, m.node_id
limit %(limit)s
