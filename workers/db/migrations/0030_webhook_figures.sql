-- What webhooks have not taken, over all tenants: what waits for its next try is seen by no tenant's list.

-- An index that is no key does not begin with the tenant: see 0007_tenants.sql.
create index webhook_outbox_waiting on webhook_outbox (at, tenant) where dead_at is null;

-- Messages to be sent now, those that wait for that or for their next try, when the oldest of these came, and those that
-- nobody took. Each is counted up to a limit, from an index of its own. It concerns every tenant, so it runs as the owner;
-- what has left this database is counted where it is now.
create function webhook_messages(most integer)
returns table (due bigint, waiting bigint, oldest timestamptz, dead bigint)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select
        (select count(*) from (
            select from webhook_outbox o
            join namespaces n on n.tenant = o.tenant and (n.standing is null or n.standing = 'held')
            where o.dead_at is null and o.next_at <= now()
            limit most
        ) counted),
        (select count(*) from (
            select from webhook_outbox o
            join namespaces n on n.tenant = o.tenant and (n.standing is null or n.standing = 'held')
            where o.dead_at is null
            limit most
        ) counted),
        (
            select o.at from webhook_outbox o
            join namespaces n on n.tenant = o.tenant and (n.standing is null or n.standing = 'held')
            where o.dead_at is null
            order by o.at
            limit 1
        ),
        (select count(*) from (
            select from webhook_outbox o
            join namespaces n on n.tenant = o.tenant and (n.standing is null or n.standing = 'held')
            where o.dead_at is not null
            limit most
        ) counted);
end;
revoke all on function webhook_messages(integer) from public;
grant execute on function webhook_messages(integer) to engramq_worker;
