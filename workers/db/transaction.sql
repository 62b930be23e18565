-- name: begin
-- Begin a transaction that may write. Each of its statements sees what was committed before it: see load_covered in schema.sql.
begin isolation level read committed

-- name: begin_read_only
-- Begin a transaction that may not.
begin isolation level read committed read only

-- name: begin_snapshot
-- Begin a transaction that may not write either, all of whose statements see one moment.
begin isolation level repeatable read read only

-- name: take_settings
-- Set what this transaction needs, and fail where something of it does not hold: see schema.sql.
select public.take_settings(%(names)s::text[], %(wanted)s::text[])

-- name: take_time
-- Let this session's transactions take as long as they want and wait in between, and their statements as long as is
-- said: for who reads everything, alone.
select set_config('transaction_timeout', '0', false), set_config('idle_in_transaction_session_timeout', '0', false),
    set_config('statement_timeout', %(timeout)s, false)

-- name: statements_take_most
-- How long each statement that follows in this transaction may take.
select set_config('statement_timeout', %(timeout)s, true)

-- name: commit
-- End it.
commit

-- name: find_tenant
-- The id of a namespace; null when nobody has written to it yet.
select tenant_of(%(namespace)s) as tenant

-- name: make_tenant
-- The id of a namespace, which is given one, and a language, when it has none.
select make_tenant(%(namespace)s, %(language)s) as tenant

-- name: enter_tenant
-- Say whose rows this transaction sees, for row-level security. Fails when that id is not this namespace's.
select enter_tenant(%(tenant)s, %(namespace)s, %(owner_first)s, %(owner_last)s)

-- name: enter_tenant_on_nodes
-- The same for the nodes of a cluster of Citus, in a statement that takes no parameters.
set local app.tenant to '%%d'

-- name: show_private
-- Say whose private rows this transaction sees from now on.
select set_config('app.owner_first', %(owner_first)s, true), set_config('app.owner_last', %(owner_last)s, true)

-- fragment: plan_once
-- Plans are made once per session and go by keys, whatever the tables held at that moment. Citus has to know the tenant to
-- make one, so there each statement has its own.
set_config('plan_cache_mode', case when current_setting('engramq.sharded', true) = 'on' then 'force_custom_plan' else 'force_generic_plan' end, true), set_config('enable_seqscan', 'off', true),
set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)

-- name: enter_for_lookups
-- The same for a transaction that asks by keys alone: the plan is the same whatever is looked up, and to make it once
-- spares half of the time.
select
    enter_tenant(%(tenant)s, %(namespace)s, %(owner_first)s, %(owner_last)s),
    {plan_once}

-- name: look_up
-- The same for what follows in a transaction that has asked otherwise before.
select {plan_once}

-- name: plan_anew
-- Plan the next statement by its values, whatever plans are kept: which index serves depends on them.
select
    set_config('app.plan_cache_mode', current_setting('plan_cache_mode'), true),
    set_config('plan_cache_mode', 'force_custom_plan', true)

-- name: plan_as_before
-- Keep plans again, if the transaction did before `plan_anew`.
select set_config('plan_cache_mode', coalesce(nullif(current_setting('app.plan_cache_mode', true), ''), 'auto'), true)

-- name: without_sorting
-- Let the next statement take rows as an index orders them. A plan that is kept, made for any number of rows, would sort
-- all of a tenant.
select set_config('enable_sort', 'off', true)

-- name: with_sorting
-- Let what follows sort again.
select set_config('enable_sort', 'on', true)

-- name: plan_by_keys
-- Let what follows in a transaction that goes through all of a tenant's rows, page by page, go by keys. Whoever holds its
-- locks for long sees no new statistics: a plan for tables that were empty, or never analyzed, would sort all rows for each
-- page, or read them all for each foreign key.
select
    set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('enable_sort', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true)

-- name: commit_without_waiting
-- Let this transaction's COMMIT return before it is on disk: for what is made again when a crash takes it away.
select set_config('synchronous_commit', 'off', true)

-- name: iso_dates
-- Have times written as the driver reads them. A pooler keeps that for its client; what a transaction sets the driver
-- hears of too late.
select set_config('datestyle', 'ISO, MDY', false)
