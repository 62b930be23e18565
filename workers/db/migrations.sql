-- name: applied_migrations
-- What this database has had.
select version, name, checksum from public.schema_migrations order by version

-- name: served_by
-- The process that serves this session.
select pg_backend_pid() as pid

-- name: was_migrated
-- Whether this database has had any migration.
select to_regclass('public.schema_migrations') is not null as was_migrated

-- name: create_schema_migrations
-- The table of what was applied, which comes before the schema.
create table if not exists schema_migrations (
    version    integer primary key,
    name       text not null,
    checksum   text not null,
    applied_at timestamptz not null default now()
)

-- name: lock_migrations
-- One migration at a time in this database, until the transaction ends: a session may be a pooler's, which would keep the
-- lock. What is missing is asked after it.
select set_config('lock_timeout', %(timeout)s, true), pg_advisory_xact_lock(hashtextextended('engramq.migrations', 0))

-- name: record_migration
-- Note that a migration was applied.
insert into schema_migrations (version, name, checksum) values (%(version)s, %(name)s, %(checksum)s)

-- name: to_be_sharded
-- Whether this database has Citus and its tables are on one node yet: see deploy/citus.sql.
select exists (select from pg_extension where extname = 'citus')
    and current_setting('engramq.sharded', true) is distinct from 'on' as to_be_sharded
