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
         and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'namespace')) as unguarded,
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

-- name: first_model
-- The digest of the model that the store began with among those of one name; ids are given in the order of registration.
select sha256 from embedding_models where name = %(name)s order by id limit 1

-- name: connection_limits
-- What bounds the connections here, and who has them: the server's limit, the database's and the login's. A worker
-- process is known by the name of its sessions.
with limits as (
    select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
            - coalesce(current_setting('reserved_connections', true)::int, 0) as most,
        null::oid as database, null::oid as login
    union all
    select datconnlimit, oid, null from pg_database where datname = current_database() and datconnlimit >= 0
    union all
    select rolconnlimit, null, oid from pg_roles where rolname = session_user and rolconnlimit >= 0
)
select l.most,
    count(*) filter (where a.application_name not like %(ours)s)::int as others,
    count(*) filter (where a.application_name like %(ours)s)::int as ours,
    (count(distinct a.application_name) filter (where a.application_name like %(ours)s))::int as workers
from limits l
join pg_stat_activity a on a.datid is not null
    and a.datid = coalesce(l.database, a.datid) and a.usesysid = coalesce(l.login, a.usesysid)
group by l.most, l.database, l.login
