-- fragment: memory_columns
-- What a record of a memory is made from; see records.py.
m.node_id as id, n.external_id, m.content, m.confidence, m.source, m.source_type, m.speaker, m.occurred_at, m.thread,
m.position, m.sector, m.sector_source, m.partition, m.verification, m.state, m.supersedes, m.superseded_by,
m.promoted_at, m.promoted_by, m.metadata, m.created_by, m.created_at, m.updated_at, u.accessed_at,
coalesce(u.helped, 0) as helped, coalesce(u.hindered, 0) as hindered

-- fragment: memory_tables
-- Where those columns come from.
memories m
join nodes n on n.id = m.node_id and n.partition = m.partition
left join memory_usage u on u.node_id = m.node_id

-- fragment: visible
-- The one visibility rule of memories m: %(partitions)s is a text array, %(include_superseded)s a boolean.
m.namespace = %(namespace)s and m.partition = any(%(partitions)s::text[]) and m.state <> 'archived'
and m.verification <> 'rejected' and (m.superseded_by is null or %(include_superseded)s)

-- fragment: clock
-- The namespace's clock.
coalesce((select c.active_hours from namespaces c where c.namespace = %(namespace)s), 0)
