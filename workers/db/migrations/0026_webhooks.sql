-- Webhooks: what is told to whom, in an outbox that is written in the transaction of the command's ledger row.

-- The secret of a webhook is kept nowhere: it follows from the installation's key and the webhook's id. `key_id` says from
-- which key, so that a worker with another one signs nothing.
create table webhooks (
    tenant       integer not null,
    id           uuid not null,
    url          text not null,
    events       text[] not null,
    with_content boolean not null,
    key_id       text not null,
    created_by   text not null,
    created_at   timestamptz not null default now(),
    primary key (tenant, id)
);
alter table webhooks enable row level security;
create policy own_tenant on webhooks to engramq_worker
    using (tenant = nullif(current_setting('app.tenant', true), '')::integer)
    with check (tenant = nullif(current_setting('app.tenant', true), '')::integer);
grant select, insert, delete on webhooks to engramq_worker;

-- What is still to be told. `told` holds ids and words of the vocabulary, never contents: these are read when it is sent.
-- A row goes when it was received; one that is dead waits for somebody to look, and goes after a month.
create table webhook_outbox (
    tenant     integer not null,
    id         uuid not null default gen_random_uuid(),  -- the receiver's webhook-id, the same in every try
    webhook_id uuid not null,
    event      text not null,
    memory_id  uuid,
    told       jsonb not null,
    at         timestamptz not null default clock_timestamp(),
    attempts   integer not null default 0,
    next_at    timestamptz not null default clock_timestamp(),
    problem    text,         -- of the last try
    dead_at    timestamptz,
    primary key (tenant, id),
    foreign key (tenant, webhook_id) references webhooks (tenant, id) on delete cascade
) with (fillfactor = 70);
create index webhook_outbox_webhook on webhook_outbox (tenant, webhook_id, at);
-- An index that is no key does not begin with the tenant: see 0007_tenants.sql.
create index webhook_outbox_due on webhook_outbox (next_at, tenant) where dead_at is null;
create index webhook_outbox_dead on webhook_outbox (dead_at, tenant) where dead_at is not null;
alter table webhook_outbox enable row level security;
create policy own_tenant on webhook_outbox to engramq_worker
    using (tenant = nullif(current_setting('app.tenant', true), '')::integer)
    with check (tenant = nullif(current_setting('app.tenant', true), '')::integer);
grant select, insert, update, delete on webhook_outbox to engramq_worker;

-- Namespaces with something to send, or to forget. It concerns every tenant, so it runs as the owner.
create function namespaces_to_tell(kept_days integer) returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from (
        select o.tenant from webhook_outbox o where o.dead_at is null and o.next_at <= now()
        union
        select o.tenant from webhook_outbox o where o.dead_at < now() - make_interval(days => kept_days)
    ) due
    join namespaces n on n.tenant = due.tenant
    order by 1;
end;
revoke all on function namespaces_to_tell(integer) from public;
grant execute on function namespaces_to_tell(integer) to engramq_worker;
