-- name: primary_state
-- Which cluster this is, and where its log ends, by timeline and bytes. A standby cannot say so.
select (select system_identifier from pg_control_system()) as cluster,
    ('x' || left(pg_walfile_name(ends.lsn), 8))::bit(32)::integer as timeline,
    (ends.lsn - '0/0')::text as written
from (select pg_current_wal_insert_lsn() as lsn) ends

-- name: standby_state
-- Whether this is a standby and of which cluster; how far it has replayed which timeline, and how old the last transaction
-- is that it has replayed.
select pg_is_in_recovery() as in_recovery, s.system_identifier as cluster,
    greatest(c.timeline_id, r.min_recovery_end_timeline) as timeline,
    (pg_last_wal_replay_lsn() - '0/0')::text as replayed,
    extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp())::float8 as lag_s
from pg_control_system() s, pg_control_checkpoint() c, pg_control_recovery() r

-- name: require_replayed
-- Fail where this is not a standby that has replayed so much: see schema.sql.
select require_replayed(%(cluster)s, %(timeline)s, '0/0'::pg_lsn + %(lsn)s::numeric)
