-- name: session_check
-- Who this session is and how it is set; making a vector loads the extension, which then judges its settings.
select
    current_user as role,
    (select rolsuper from pg_roles where rolname = current_user) as superuser,
    exists (select from pg_class c join pg_roles r on r.oid = c.relowner
            where r.rolname = current_user and c.relkind in ('r', 'p')) as owned,
    (select coalesce(string_agg(c.relname, ', ' order by c.relname), '') from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
         and not row_security_active(c.oid)
         and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant')) as unguarded,
    length('[1]'::halfvec(1)::text) as loaded,
    current_setting('hnsw.iterative_scan') as "hnsw.iterative_scan",
    current_setting('hnsw.ef_search') as "hnsw.ef_search",
    current_setting('plan_cache_mode') as plan_cache_mode,
    current_setting('jit') as jit

-- name: all_namespaces
-- Every tenant, for work that goes through them one by one.
select every_namespace() as namespace

-- name: register_model
-- Find or make the id of an embedding model and its vector index.
select register_embedding_model(%(name)s, %(sha256)s, %(dimensions)s) as id

-- name: use_model
-- The same for who is about to write its vectors: see 0020_embedding_models_in_use.sql.
select use_embedding_model(%(name)s, %(sha256)s, %(dimensions)s, %(began_s_ago)s) as id

-- name: models_named
-- The digests of the models of one name; ids are given in the order of registration.
select sha256 from embedding_models where name = %(name)s order by id

-- name: takes_writes
-- Whether this session may not write. One that began in a database that was read-only stays so.
select pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as read_only
