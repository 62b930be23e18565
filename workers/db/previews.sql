-- name: node_titles
-- What named nodes are called.
select n.id, n.label, n.name from nodes n
where n.tenant = %(tenant)s and n.name is not null and n.id = any(%(ids)s)

-- name: edge_ends
-- What edges, links and links that wait say: nodes by their names, memories by how they begin.
select e.id, e.relation, coalesce(s.name, left(sm.content, %(beginning_chars)s), '') as source,
    coalesce(t.name, left(tm.content, %(beginning_chars)s), '') as target
from (
    select x.id, x.relation, x.source_id, x.target_id from edges x
    where x.tenant = %(tenant)s and x.id = any(%(ids)s)
    union all
    select d.id, coalesce(d.request ->> 'relation', ''), d.source_id, d.target_id from deferred_links d
    where d.tenant = %(tenant)s and d.id = any(%(ids)s)
) e
left join nodes s on s.tenant = %(tenant)s and s.id = e.source_id
left join nodes t on t.tenant = %(tenant)s and t.id = e.target_id
left join memories sm on sm.tenant = %(tenant)s and sm.node_id = e.source_id
left join memories tm on tm.tenant = %(tenant)s and tm.node_id = e.target_id
