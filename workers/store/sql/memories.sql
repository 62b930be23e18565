-- name: memory_contents
-- What the ledger does not keep of memories: their contents and names, to make an answer complete again.
select n.id, n.external_id, m.content, m.metadata, m.speaker, m.thread, m.source_type
from nodes n
join memories m on m.node_id = n.id and m.partition = n.partition
where n.namespace = %(namespace)s and m.namespace = %(namespace)s and n.id = any(%(ids)s)

-- name: memories_by_id
-- Memories of this namespace, whatever their state.
select {memory_columns}
from {memory_tables}
where m.namespace = %(namespace)s and n.id = any(%(ids)s)
