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
