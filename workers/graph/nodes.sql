-- name: node_with_external_id
-- Whose an external id is.
select id, partition from nodes where namespace = %(namespace)s and external_id = %(external_id)s

-- name: lock_memories
-- Lock memories against every other change, in the one order that all writers keep, and read what decides.
select n.id, m.partition, m.state, m.verification, m.supersedes, m.superseded_by, m.created_by
from nodes n
join memories m on m.node_id = n.id and m.partition = n.partition
where n.namespace = %(namespace)s and m.namespace = %(namespace)s and n.id = any(%(ids)s)
order by n.id
for no key update of n, m

-- name: erase_nodes
-- Remove memories with everything that hangs on them: rows, links, counters.
delete from nodes where namespace = %(namespace)s and id = any(%(ids)s)
returning id
