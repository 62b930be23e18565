-- Knowledge edges and named nodes that were deleted: kept for as long as a deletion can be undone, then removed by upkeep.

-- A deletion has the number of its entry in the audit log. That keeps no names; they are here, where they can be erased.
create table deleted_graph (
    tenant     integer not null,
    deletion   bigint not null,       -- the id of its entry in audit_log
    id         uuid not null,         -- of a node, or of an edge that was deleted by itself or with its node
    is_node    boolean not null,
    record     jsonb not null,        -- the row as it was, without its tenant
    created_by text,                  -- whose the row was
    deleted_at timestamptz not null,  -- the time of that entry
    primary key (tenant, deletion, id)
) with (autovacuum_vacuum_scale_factor = 0.05);
create index deleted_graph_age on deleted_graph (tenant, deleted_at);
-- The deletion that took a node; see 0007_tenants.sql for why the tenant does not come first.
create index deleted_graph_node on deleted_graph (id, tenant) where is_node;
alter table deleted_graph enable row level security;
create policy own_tenant on deleted_graph to engramq_worker
    using (tenant = nullif(current_setting('app.tenant', true), '')::integer)
    with check (tenant = nullif(current_setting('app.tenant', true), '')::integer);
grant select, insert, delete on deleted_graph to engramq_worker;
grant update (deleted_at) on deleted_graph to engramq_worker;  -- which locking a row takes; nobody changes one
