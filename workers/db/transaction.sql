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

-- name: commit_without_waiting
-- Let this transaction's COMMIT return before it is on disk: for what is made again when a crash takes it away.
select set_config('synchronous_commit', 'off', true)
