-- name: applied_migrations
-- What this database has had.
select version, checksum from schema_migrations order by version

-- name: create_schema_migrations
-- The table of what was applied, which comes before every migration.
create table if not exists schema_migrations (
    version    integer primary key,
    name       text not null,
    checksum   text not null,
    applied_at timestamptz not null default now()
)

-- name: lock_migrations
-- One migration at a time in this database, until the session ends.
select set_config('lock_timeout', %(timeout)s, false), pg_advisory_lock(hashtextextended('engramq.migrations', 0))

-- name: record_migration
-- Note that a migration was applied.
insert into schema_migrations (version, name, checksum) values (%(version)s, %(name)s, %(checksum)s)

-- name: analyze
-- Gather the statistics of every table.
analyze
