-- name: store_size
-- About how many memories all namespaces hold together, and how large the database is.
select
    (select coalesce(sum(greatest(reltuples, 0)), 0)::bigint from pg_class
     where oid = any(array['memories_trusted'::regclass, 'memories_untrusted'::regclass]::oid[])) as memories,
    pg_database_size(current_database()) as bytes

-- name: pending_counted
-- How many memories of a namespace wait for their vectors, counted up to a limit.
select count(*) as pending from (
    select 1 as found from memories where tenant = %(tenant)s and state = 'pending' limit %(limit)s
) counted

-- name: webhook_messages_counted
-- What the webhooks of all namespaces have not taken, each sort counted up to a limit: messages that could be sent now, those
-- that wait for that or for their next try, how many seconds ago the oldest of these came, and those that nobody took.
select m.due, m.waiting, m.dead,
    greatest(coalesce(extract(epoch from now() - m.oldest), 0), 0)::double precision as oldest_s
from webhook_messages(%(limit)s::integer) m
