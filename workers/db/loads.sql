-- fragment: in_index
-- Whether the vector index knows a memory m: its own condition, word for word.
not m.repeated and (m.load_id is null or load_covered(m.tenant, m.load_id, m.partition, m.model_id))

-- fragment: outside_index
-- Whether the vector index may not know a memory m, since it came with a load whose index is still to be built.
not m.repeated and m.load_id = any(array(select l.id from loads l where l.tenant = %(tenant)s))

-- fragment: repeated_key
-- The vectors that the vector index holds often enough, so that equal ones are outside: it goes from one to the next in
-- their index. A query with this begins `with recursive`.
repeated_key (key) as (
    (
        select m.vector_key from memories m
        where m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[]) and m.repeated
        order by m.vector_key
        limit 1
    )
    union all
    select (
        select m.vector_key from memories m
        where m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[]) and m.repeated and m.vector_key > before.key
        order by m.vector_key
        limit 1
    )
    from repeated_key before
    where before.key is not null
)

-- fragment: of_repeated
-- Whether a memory m has the vector of a `repeated_key` k, outside the vector index.
m.repeated and m.vector_key = k.key

-- name: touch_load
-- Lock the open load of a partition and model, unless it is full, and say that so many rows come to it.
update loads l set loaded_at = now(), rows = l.rows + %(rows)s
where l.tenant = %(tenant)s and l.partition = %(partition)s and l.model_id = %(model_id)s and not l.covered
    and l.rows < %(most)s
returning l.id

-- name: open_load
-- Begin a load of a partition and model, unless one is open, or so many wait for their index that searches scan enough.
insert into loads (tenant, partition, model_id)
select %(tenant)s, %(partition)s, %(model_id)s
where (select count(*) from loads l where l.tenant = %(tenant)s) < %(most)s
on conflict (tenant, partition, model_id) where not covered do nothing

-- name: loads_over
-- Every tenant's loads that are over.
select id, namespace, partition, model_id from loads_over(%(idle_s)s, %(most)s)

-- name: cover_load
-- Let the vector index take the rows of a load from now on. Waits for writers that add rows to it.
update loads l set covered = true where l.tenant = %(tenant)s and l.id = any(%(ids)s)

-- name: cover_full_load
-- Let the vector index take the rows of a load that is full from now on.
update loads l set covered = true
where l.tenant = %(tenant)s and l.partition = %(partition)s and l.model_id = %(model_id)s and not l.covered
    and l.rows >= %(full)s

-- name: end_load
-- Forget loads whose index has been built.
delete from loads l where l.tenant = %(tenant)s and l.id = any(%(ids)s) and l.covered

-- name: lock_builds
-- Take the lock of the builds for this session, if nobody has it.
select pg_try_advisory_lock(hashtextextended('engramq.builds', 0)) as locked

-- name: lock_builds_here
-- Take the lock of the builds for this transaction, if nobody has it.
select pg_try_advisory_xact_lock(hashtextextended('engramq.builds', 0)) as locked

-- fragment: room_to_build
-- Memory for the vector index of 200,000 rows, or what the server gives where that is more: rows that find no room are
-- added to the index one by one, which takes several times as long.
set_config('maintenance_work_mem', case
    when pg_size_bytes(current_setting('maintenance_work_mem')) > pg_size_bytes('256MB')
    then current_setting('maintenance_work_mem') else '256MB' end, false)

-- name: build_settings
-- One core for a build, room, and no bound of time but its own.
select set_config('statement_timeout', %(timeout)s, false), set_config('transaction_timeout', '0', false),
    set_config('lock_timeout', '0', false), {room_to_build},
    set_config('max_parallel_maintenance_workers', '0', false)

-- name: drop_broken_indexes
-- Remove what a build that was broken off has left behind.
select drop_broken_indexes() as dropped

-- name: build_command
-- The statement that builds the vector index of a partition and model anew, beside readers and writers.
select format('reindex index concurrently %%s', i.inhrelid::regclass) as command
from pg_inherits i
join pg_index x on x.indexrelid = i.inhrelid
where i.inhparent = ('memories_embedding_' || %(model_id)s)::regclass
    and x.indrelid = ('memories_' || %(partition)s)::regclass

-- name: analyze_loaded
-- Let the planner know of what was loaded: of memories as a whole, which autovacuum never analyzes, since it is divided.
analyze memories
