-- name: rewrite_settings
-- A wait for who uses a table that nobody behind notices for long, and else no bound of time.
select set_config('lock_timeout', %(lock_timeout)s, false), set_config('statement_timeout', '0', false),
    {room_to_build}

-- name: wait_for_builds
-- Keep index builds away for as long as this session lives, when none is under way.
select pg_try_advisory_lock(hashtextextended('engramq.builds', 0)) as locked

-- name: tables_to_rewrite
-- Every table of ours with its size in bytes, indexes and long values too, the smallest first; how to write it anew, and
-- whether this role may: for what it may not PostgreSQL only warns.
select c.relname as name, pg_total_relation_size(c.oid) as bytes,
    format('vacuum (full, analyze) %%s', c.oid::regclass) as command,
    pg_has_role(c.relowner, 'usage') and pg_has_role(d.datdba, 'usage') as may
from pg_class c
join pg_database d on d.datname = current_database()
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
order by bytes, c.relname

-- name: size_of_table
-- The size of a table in bytes, indexes and long values too.
select pg_total_relation_size(to_regclass(%(name)s)) as bytes

-- name: can_clear_statistics
-- Whether statistics can be cleared: since PostgreSQL 18.
select to_regprocedure('pg_clear_attribute_stats(text, text, text, boolean)') is not null as possible

-- name: clear_statistics
-- Forget all statistics, which quote values of columns: those of a table that is empty now would not be renewed.
select pg_clear_attribute_stats(s.schemaname::text, s.tablename::text, s.attname::text, s.inherited)
from pg_stats s
where s.schemaname = 'public'

-- name: analyze_everything
-- Renew all statistics.
analyze

-- name: rewrite_statistics
-- Write anew what statistics are kept in.
vacuum (full) pg_catalog.pg_statistic

-- name: checkpoint
-- Write what is in memory, remove the files of what was rewritten, and the log of before the last checkpoint but one.
checkpoint

-- name: wal_not_kept
-- Have segments of the log removed when they are over, instead of kept with their contents for later use.
alter system set wal_recycle = off

-- name: wal_kept
-- Undo that.
alter system reset wal_recycle

-- name: reload
-- Have the server read its settings again.
select pg_reload_conf() as reloaded

-- name: last_segment
-- The newest segment of the log by name, be it in use or kept for later.
select max(f.name) as name from pg_ls_waldir() f where length(f.name) = 24 and f.name !~ '[^0-9A-F]'

-- name: next_segment
-- Fill the current segment of the log with zeros and begin the next one.
select pg_switch_wal() from pg_logical_emit_message(false, 'engramq', 'files written anew')

-- name: segments_of_before
-- How many segments of the log are not newer than one, or wait to be written again. By names: times of files are told in
-- whole seconds here, and all of this may be done within one.
select count(*) filter (where f.name <= %(last)s or f.name > pg_walfile_name(pg_current_wal_insert_lsn())) as old,
    count(*) filter (where f.name > pg_walfile_name(pg_current_wal_insert_lsn())) as waiting
from pg_ls_waldir() f
where length(f.name) = 24 and f.name !~ '[^0-9A-F]'
