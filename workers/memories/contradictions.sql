-- name: contradictions_next
-- The next active memories whose neighbours are compared with them, from this one back.
select m.node_id as id, m.partition, e.dimensions
from memories m
join embedding_models e on e.id = m.model_id
where {visible} and {in_project} and m.state = 'active' and m.model_id = %(model_id)s
    and (%(last)s::uuid is null or m.node_id <= %(last)s::uuid)
order by m.node_id desc
limit %(limit)s

-- name: contradictions_linked
-- What was linked to these memories as contradicting them, or as holding beside them.
select e.source_id as id, e.target_id as other_id, e.relation
from edges e
where e.tenant = %(tenant)s and e.layer = 'association' and e.relation = any(%(relations)s) and e.source_id = any(%(ids)s)
union
select e.source_id, e.target_id, e.relation
from edges e
where e.tenant = %(tenant)s and e.layer = 'association' and e.relation = any(%(relations)s) and e.target_id = any(%(ids)s)

-- name: contradictions_read
-- What of these memories is compared.
select
    m.node_id as id, m.content, m.speaker, m.project, m.position, coalesce(m.occurred_at, m.created_at) as moment,
    m.valid_from, {ends} as valid_until
from memories m
where {visible} and {in_project} and m.state = 'active' and m.node_id = any(%(ids)s)
