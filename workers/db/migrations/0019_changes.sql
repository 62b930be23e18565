-- In which namespaces something changed of late: upkeep looks at those alone, so that idle ones cost nothing.

-- A row says that a transaction which began in that minute may have left something to be done. It goes when a look that
-- began after every such transaction had ended found nothing. Each session writes rows of its own, so that none waits for
-- the end of another's transaction.
create table changes (
    tenant  integer not null,
    minute  timestamptz not null,
    backend integer not null,
    swept   boolean not null default false,  -- nothing is unfinished
    counted boolean not null default false,  -- the counts of words are those of afterwards
    primary key (tenant, minute, backend)
) with (autovacuum_vacuum_scale_factor = 0.05);
alter table changes enable row level security;
create policy own_tenant on changes to engramq_worker
    using (tenant = nullif(current_setting('app.tenant', true), '')::integer)
    with check (tenant = nullif(current_setting('app.tenant', true), '')::integer);
grant select, insert on changes to engramq_worker;
-- What was there before is looked at once.
insert into changes (tenant, minute, backend) select tenant, date_trunc('minute', now()), 0 from namespaces;

-- What the clock showed when the namespace's links last decayed.
alter table namespaces add column links_decayed_at_hours double precision not null default 0;
grant update (links_decayed_at_hours) on namespaces to engramq_worker;

-- Old rows are found by their age alone, whosever they are. An index that is no key does not begin with the tenant: see
-- 0007_tenants.sql.
drop index ledger_age;
create index ledger_age on ledger (created_at, tenant);
drop index memories_expiring;
create index memories_expiring on memories (expires_at, tenant) where expires_at is not null and state <> 'archived';

-- The questions below concern every tenant, so they run as the owner.

-- Namespaces in which something changed that no look has settled yet: no sweep, or no counting of words; or all that are
-- remembered. And what time it is.
create function changed_namespaces(kind text) returns table (namespace text, seen_at timestamptz)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace, now()
    from (
        select distinct c.tenant from changes c
        where kind = 'any' or (kind = 'sweep' and not c.swept) or (kind = 'counts' and not c.counted)
    ) changed
    -- One by one, or all of them would be read.
    cross join lateral (select s.namespace from namespaces s where s.tenant = changed.tenant limit 1) n
    order by 1;
end;
revoke all on function changed_namespaces(text) from public;
grant execute on function changed_namespaces(text) to engramq_worker;

-- Settle the changes of these namespaces, each as far as a look that began at that moment has seen them. A transaction
-- lasts 30 seconds at most (`transaction_timeout` of the workers' sessions): after three minutes each that began in a
-- minute has ended.
create function settle_changes(kind text, names text[], looked_at timestamptz[]) returns void
language sql volatile security definer set search_path = public, pg_temp
begin atomic
    update changes c set swept = c.swept or kind = 'sweep', counted = c.counted or kind = 'counts'
    from unnest(names, looked_at) as given (name, looked_at)
    join namespaces n on n.namespace = given.name
    where c.tenant = n.tenant and c.minute < given.looked_at - interval '3 minutes';
    delete from changes c
    using unnest(names) as given (name)
    join namespaces n on n.namespace = given.name
    where c.tenant = n.tenant and c.swept and c.counted;
end;
revoke all on function settle_changes(text, text[], timestamptz[]) from public;
grant execute on function settle_changes(text, text[], timestamptz[]) to engramq_worker;

-- Namespaces with a memory whose time has passed and that is not archived.
create function expiring_namespaces() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from (
        select distinct m.tenant from memories m
        where m.expires_at is not null and m.expires_at <= now() and m.state <> 'archived'
    ) due
    join namespaces n on n.tenant = due.tenant
    order by 1;
end;
revoke all on function expiring_namespaces() from public;
grant execute on function expiring_namespaces() to engramq_worker;

-- Namespaces with something that is kept for so many days only, and is older.
create function outdated_namespaces(ledger_days integer, pair_days integer, graph_days integer) returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from namespaces n
    where n.tenant in (select l.tenant from ledger l where l.created_at < now() - make_interval(days => ledger_days))
        or exists (
            select from co_retrievals c
            where c.tenant = n.tenant and c.seen_at < now() - make_interval(days => pair_days)
        ) or exists (
            select from deleted_graph d
            where d.tenant = n.tenant and d.deleted_at <= now() - make_interval(days => graph_days)
        ) or exists (
            select from proposals p
            where p.tenant = n.tenant and p.created_at <= now() - make_interval(days => graph_days)
        )
    order by 1;
end;
revoke all on function outdated_namespaces(integer, integer, integer) from public;
grant execute on function outdated_namespaces(integer, integer, integer) to engramq_worker;

-- Namespaces whose clock has gained so many hours since their links last decayed.
create function decaying_namespaces(hours double precision) returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace from namespaces n
    where n.active_hours >= n.links_decayed_at_hours + hours
    order by 1;
end;
revoke all on function decaying_namespaces(double precision) from public;
grant execute on function decaying_namespaces(double precision) to engramq_worker;
