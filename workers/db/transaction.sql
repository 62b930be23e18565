-- name: begin
-- Begin a transaction that may write.
begin

-- name: begin_read_only
-- Begin a transaction that may not.
begin read only

-- name: commit
-- End it.
commit

-- name: enter_namespace
-- Say which namespace this transaction sees, for row-level security.
select set_config('app.namespace', %(namespace)s, true)

-- name: enter_for_lookups
-- The same for a transaction that asks by keys alone: their plan is the same whatever is looked up, so it is made once per
-- session (which spares half of their time); without full scans, since the tables may be nearly empty at that moment.
select
    set_config('app.namespace', %(namespace)s, true),
    set_config('plan_cache_mode', 'force_generic_plan', true),
    set_config('enable_seqscan', 'off', true)

-- name: plan_once
-- The same for what follows in a transaction that has asked otherwise before.
select set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true)

-- name: commit_without_waiting
-- Let this transaction's COMMIT return before it is on disk: for what is made again when a crash takes it away.
select set_config('synchronous_commit', 'off', true)
