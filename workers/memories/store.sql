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

-- name: insert_memory
-- Make a memory; no row when its external id is taken. The namespace's own row is made with its first memory.
with space as (
    insert into namespaces (namespace) values (%(namespace)s) on conflict do nothing
), node as (
    insert into nodes (id, namespace, label, partition, external_id)
    values (%(id)s, %(namespace)s, 'Memory', %(partition)s, %(external_id)s)
    on conflict (namespace, external_id) where external_id is not null do nothing
    returning id, partition
)
insert into memories (
    node_id, partition, namespace, content, confidence, source, source_type, speaker, occurred_at, thread, position,
    sector, sector_source, verification, state, metadata, lexemes, embedding, model_id, created_by, active_hours
)
select
    node.id, node.partition, %(namespace)s, %(content)s, %(confidence)s, %(source)s, %(source_type)s, %(speaker)s,
    %(occurred_at)s, %(thread)s, %(position)s, %(sector)s, %(sector_source)s, %(verification)s, %(state)s,
    %(metadata)s, memory_lexemes(%(namespace)s, %(content)s, %(speaker)s, %(occurred_at)s), %(embedding)s::halfvec,
    %(model_id)s, %(created_by)s, {clock}
from node
returning created_at, updated_at

-- name: pending_contents
-- Those of the given memories that still wait for a vector.
select m.node_id as id, m.content
from memories m
where m.namespace = %(namespace)s and m.state = 'pending' and m.node_id = any(%(ids)s)
order by m.node_id

-- name: activate_pending
-- Give a memory the vector of this content, unless somebody did, or it has another content, or is pending no more.
update memories set embedding = %(embedding)s::halfvec, model_id = %(model_id)s, state = 'active'
where namespace = %(namespace)s and node_id = %(id)s and state = 'pending' and content = %(content)s
returning node_id

-- name: pending_after
-- Memories that have waited for their vector for longer than a store takes, in a stable order.
select m.node_id as id
from memories m
where m.namespace = %(namespace)s and m.state = 'pending' and m.node_id > %(after)s
    and m.created_at < now() - make_interval(secs => %(older_than_s)s)
order by m.node_id
limit %(limit)s

-- name: content_of
-- What an erasure has to look for outside the database, and who may order it.
select m.content, m.created_by from memories m
where m.namespace = %(namespace)s and m.node_id = %(id)s
