-- fragment: changed_now
-- Note that this transaction may leave something for upkeep to do. In most minutes somebody has noted it already.
insert into changes (tenant, minute, backend)
select %(tenant)s, date_trunc('minute', now()), pg_backend_pid()
where not exists (select from changes c where c.tenant = %(tenant)s and c.minute = date_trunc('minute', now()))
on conflict do nothing

-- name: note_change
-- The same by itself.
{changed_now}

-- name: changed_namespaces
-- Where something changed that is still to be looked at, and what time it is.
select namespace, seen_at from changed_namespaces(%(kind)s)

-- name: settle_changes
-- Settle what looks that began at these moments have seen.
select settle_changes(%(kind)s, %(names)s, %(looked_at)s)

-- name: expiring_namespaces
-- Where memories have expired that are not archived.
select expiring_namespaces() as namespace

-- name: outdated_namespaces
-- Where something is older than it is kept.
select outdated_namespaces(%(ledger_days)s, %(pair_days)s, %(graph_days)s, %(message_days)s) as namespace

-- name: decaying_namespaces
-- Where links have to decay.
select decaying_namespaces(%(hours)s) as namespace
