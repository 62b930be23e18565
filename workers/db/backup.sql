-- name: keep_log
-- Have the server keep its write-ahead log from now on, until this session ends.
select pg_create_physical_replication_slot(%(slot)s, true, true)

-- name: about_cluster
-- The server's major version, and the size of all of its databases in bytes.
select current_setting('server_version_num')::integer / 10000 as postgresql,
    (select sum(pg_database_size(oid)) from pg_database)::bigint as bytes

-- name: schema_number
-- The last migration that this database has had.
select coalesce(max(version), 0) as number from schema_migrations
