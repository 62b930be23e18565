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
    -- Of a table whose rows may be private each policy has to say whose are seen.
    (select coalesce(string_agg(distinct c.relname, ', ' order by c.relname), '')
     from pg_class c
     join pg_attribute a on a.attrelid = c.oid and a.attname = 'owner' and not a.attisdropped
     left join pg_policy p on p.polrelid = c.oid
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
         and (p.oid is null or pg_get_expr(p.polqual, c.oid) not like '%%app.owner_first%%'
             or pg_get_expr(p.polwithcheck, c.oid) not like '%%app.owner_first%%')) as unprivate,
    length('[1]'::halfvec(1)::text) as loaded,
    pg_is_in_recovery() as is_standby,
    coalesce(current_setting('engramq.sharded', true) = 'on', false) as sharded,
    coalesce(current_setting('citus.propagate_set_commands', true) = 'local', false) as settings_reach_nodes,
    {settings}

-- name: whose_session
-- The process that serves this session, and how it is set.
select pg_backend_pid() as pid, {settings}

-- name: own_sessions
-- The sessions of this worker process at this server, and which of them wait for the worker.
select pid, coalesce(wait_event = 'ClientRead', false) as waits_for_us
from pg_stat_activity where application_name = current_setting('application_name')

-- fragment: settings
-- What holds in every session of a worker, by name.
(select json_object_agg(name, current_setting(name, true)) from unnest(%(names)s::text[]) as name) as settings

-- name: all_namespaces
-- Every tenant, for work that goes through them one by one.
select every_namespace() as namespace

-- name: register_model
-- Find or make the id of an embedding model and its vector index.
select register_embedding_model(%(name)s, %(sha256)s, %(dimensions)s) as id

-- name: use_model
-- The same for who is about to write its vectors: see schema.sql.
select use_embedding_model(%(name)s, %(sha256)s, %(dimensions)s, %(began_s_ago)s) as id

-- name: models_named
-- The digests of the models of one name; ids are given in the order of registration.
select sha256 from embedding_models where name = %(name)s order by id

-- name: takes_writes
-- Whether this session may not write. One that began in a database that was read-only stays so.
select pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as read_only

-- name: server_time
-- What the server's clock says, in seconds since the epoch.
select extract(epoch from clock_timestamp())::float8 as seconds, clock_timestamp() as now

-- name: vector_extension
-- Which version of pgvector the database has, and which one the server could give it; null: none.
select
    (select extversion from pg_extension where extname = 'vector') as installed,
    (select default_version from pg_available_extensions where name = 'vector') as available
