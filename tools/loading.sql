-- name: slow_indexes
-- The indexes of memories that are faster built over all rows than row by row, and how to make them again.
select indexname as name, replace(indexdef, ' ON ONLY ', ' ON ') as definition
from pg_indexes
where schemaname = current_schema() and tablename = 'memories'
    and (indexname in ('memories_lexemes', 'memories_tags') or indexname like 'memories\_embedding\_%%')

-- name: make_loaded
-- Where rows wait to be loaded.
create temporary table loaded (
    id uuid, namespace text, partition text, external_id text, content text, sector text, speaker text,
    occurred_at timestamptz, thread text, position integer, tags text[], project text,
    embedding halfvec
) on commit drop

-- name: copy_loaded
-- Take the rows in.
copy loaded (id, namespace, partition, external_id, content, sector, speaker, occurred_at, thread, position, tags,
    project, embedding)
from stdin (format binary)

-- name: load_namespaces
-- The namespaces of what was taken in.
select make_tenant(namespace) from (select distinct namespace from loaded) as named

-- name: load_nodes
-- Make the nodes of what was taken in.
insert into nodes (id, tenant, label, partition, external_id)
select id, tenant, 'Memory', partition, external_id from loaded join namespaces using (namespace)

-- name: load_memories
-- Make the memories of what was taken in, each at a moment of its own, as if they had come one after another.
insert into memories (
    node_id, partition, tenant, content, confidence, source, speaker, occurred_at, thread, position, sector,
    sector_source, standing_source, verification, state, tags, project, lexemes, embedding, model_id, links_made_at,
    created_by, created_at
)
select
    id, partition, tenant, content, 1.0, 'extracted', speaker, occurred_at, thread, position, sector,
    case when sector is not null then 'auto' end, case when sector is not null then 'auto' end, 'unverified', 'active',
    tags, project, memory_lexemes(tenant, content, speaker, day_told(content, occurred_at, 0)), embedding, %(model_id)s,
    case when %(linked)s then now() end, %(created_by)s, clock_timestamp()
from loaded join namespaces using (namespace)

-- name: roomy_session
-- Memory for building indexes: the default makes it three times slower.
select set_config('maintenance_work_mem', %(memory)s, false), set_config('statement_timeout', '0', false)

-- name: built_in_parallel
-- Let several processes build the vector index, which a function in its condition forbids otherwise: nobody loads meanwhile.
alter function load_covered(integer, integer, text, smallint) parallel safe

-- name: built_alone
-- Have that function as the schema makes it.
alter function load_covered(integer, integer, text, smallint) parallel unsafe

-- name: analyze_memories
-- Let the planner know of what was loaded.
analyze nodes, memories
