-- Spread the tables of tenants over a Citus cluster, all rows of a tenant on one of its nodes. Run once, by the owner (a
-- superuser), on the coordinator, after its nodes were added and `engramq migrate` has run, before anything is stored:
--
--     psql "$ENGRAMQ_DATABASE_URL" --single-transaction -v ON_ERROR_STOP=1 -f deploy/citus.sql
--
-- Citus 14 with PostgreSQL 18, and pgvector installed on every node. Citus brings extension, role and functions to nodes
-- that were there before `engramq migrate`. docs/scaling.md, "Citus", says what was tried.

-- Once: tables that are spread already are refused by Citus, in words that help nobody.
do $$
begin
    if current_setting('engramq.sharded', true) = 'on' then
        raise exception 'this database is spread already'
            using hint = 'Nothing was changed. Of this script run the lines alone that are new to your cluster.';
    end if;
end
$$;

-- Several changes of tables in one transaction go to one shard after another, not to all at once.
set local citus.multi_shard_modify_mode to 'sequential';

-- What a transaction sets for itself is set on the nodes too: row-level security looks there for the tenant.
do $$
begin
    execute format('alter database %I set citus.propagate_set_commands to %L', current_database(), 'local');
    execute format('alter database %I set citus.multi_shard_modify_mode to %L', current_database(), 'sequential');
    -- Tells workers to set the tenant by a statement of its own, which Citus passes on, and to make no bulk loads.
    execute format('alter database %I set engramq.sharded to %L', current_database(), 'on');
end
$$;

-- A node cannot count for the cluster how often a vector stands in the index: there every row is in it.
create or replace function is_repeated(partition text, model smallint, embedding halfvec) returns boolean
language sql immutable as 'select false';

-- The condition of a vector index may read no other table there: a query on a node cannot ask the cluster. Without bulk
-- loads every row goes into the index at once.
create or replace function make_vector_index(model smallint) returns void
language plpgsql set search_path = public, pg_temp as $$
begin
    execute format(
        'create index if not exists %I on memories using hnsw ((embedding::halfvec(%s)) halfvec_cosine_ops) '
        'with (m = 16, ef_construction = 64) where model_id = %s',
        'memories_embedding_' || model, (select dimensions from embedding_models where id = model), model);
end
$$;
do $$
declare
    model smallint;
begin
    for model in select id from embedding_models where retired_at is null loop
        execute format('drop index if exists %I', 'memories_embedding_' || model);
        perform make_vector_index(model);
    end loop;
end
$$;

-- Making a table whole on every node first makes Citus' own of all that refer to it, which fails for the partitions of
-- memories. So these foreign keys wait until all tables have their place.
alter table memories drop constraint memories_model_id_fkey;
alter table loads drop constraint loads_model_id_fkey;

-- Whole on every node: the directory of tenants, tokens, which are looked up before their tenant is known, and what all
-- tenants share.
select create_reference_table('namespaces');
select create_reference_table('embedding_models');
select create_reference_table('reembedding');
select create_reference_table('tokens');

-- Citus takes no trigger, so that there copies look at their rows at each search.
drop trigger memories_written on memories;
drop function note_memories_written();
drop function writes_of(integer);
drop sequence memories_written;
do $$
begin
    for place in 0..31 loop
        execute format('drop sequence memories_written_%s', place);
    end loop;
end
$$;
-- Nor totals, then: what they are made of is counted at each look. Without their notes there is nothing to fold.
drop trigger memory_came on memories;
drop trigger memory_changed on memories;
drop function note_total();
drop function unfolded_namespaces();
drop function uncompared_namespaces();
drop function mend_totals();
drop table memory_totals;
create view memory_totals with (security_invoker = true) as select * from memories_counted;
alter view memories_counted set (security_invoker = true);
grant select on memory_totals, memories_counted to engramq_worker;
create or replace function fold_totals(waits boolean) returns bigint language sql as 'select 0::bigint';

-- By tenant, so that a tenant's rows are together; what is referred to comes first.
select create_distributed_table('nodes', 'tenant');
select create_distributed_table('memories', 'tenant', colocate_with => 'nodes');
select create_distributed_table('memory_usage', 'tenant', colocate_with => 'nodes');
select create_distributed_table('edges', 'tenant', colocate_with => 'nodes');
select create_distributed_table('link_tombstones', 'tenant', colocate_with => 'nodes');
select create_distributed_table('deferred_links', 'tenant', colocate_with => 'nodes');
select create_distributed_table('co_retrievals', 'tenant', colocate_with => 'nodes');
select create_distributed_table('proposals', 'tenant', colocate_with => 'nodes');
select create_distributed_table('approvals', 'tenant', colocate_with => 'nodes');
select create_distributed_table('imported_rows', 'tenant', colocate_with => 'nodes');
select create_distributed_table('deleted_graph', 'tenant', colocate_with => 'nodes');
select create_distributed_table('lexeme_counts', 'tenant', colocate_with => 'nodes');
select create_distributed_table('lexeme_rebuilds', 'tenant', colocate_with => 'nodes');
select create_distributed_table('loads', 'tenant', colocate_with => 'nodes');
select create_distributed_table('changes', 'tenant', colocate_with => 'nodes');
select create_distributed_table('audit_log', 'tenant', colocate_with => 'nodes');
select create_distributed_table('audit_chain', 'tenant', colocate_with => 'nodes');
select create_distributed_table('ledger', 'tenant', colocate_with => 'nodes');
select create_distributed_table('webhooks', 'tenant', colocate_with => 'nodes');
select create_distributed_table('webhook_outbox', 'tenant', colocate_with => 'nodes');

alter table memories add constraint memories_model_id_fkey foreign key (model_id) references embedding_models (id);
alter table loads add constraint loads_model_id_fkey foreign key (model_id) references embedding_models (id);

-- Named by searches, though never called: there are no loads. It reads a table, so Citus does not spread it by itself.
select create_distributed_function('load_covered(integer, integer, text, smallint)');

-- Who writes a table that is whole on every node locks those that it refers to, which takes a right to write there.
grant update (used_at) on embedding_models to engramq_worker;

-- What a worker has changed in a transaction no function of another owner may touch in it, so here blanking the audit log
-- runs as the worker. It may change nothing of an entry but its words, and the policy lets it leave none.
alter function blank_audit(uuid[], uuid) security invoker;
alter function blank_audit_of_deleted(integer) security invoker;
grant update (reason, old, new) on audit_log to engramq_worker;
drop policy own_tenant on audit_log;
create policy own_tenant_reads on audit_log for select to engramq_worker
    using (tenant = nullif(current_setting('app.tenant', true), '')::integer and (owner is null
        or owner between current_setting('app.owner_first', true) and current_setting('app.owner_last', true)));
create policy own_tenant_writes on audit_log for insert to engramq_worker
    with check (tenant = nullif(current_setting('app.tenant', true), '')::integer and (owner is null
        or owner between current_setting('app.owner_first', true) and current_setting('app.owner_last', true)));
create policy own_tenant_blanks on audit_log for update to engramq_worker
    using (tenant = nullif(current_setting('app.tenant', true), '')::integer and (owner is null
        or owner between current_setting('app.owner_first', true) and current_setting('app.owner_last', true)))
    with check (
        tenant = nullif(current_setting('app.tenant', true), '')::integer and (owner is null
        or owner between current_setting('app.owner_first', true) and current_setting('app.owner_last', true))
        and reason is null
        and not coalesce(old @? '$.properties.*', false) and not coalesce(new @? '$.properties.*', false)
    );
-- The coordinator takes the numbers of rows that an INSERT ... SELECT writes, as the worker.
grant usage on sequence audit_log_id_seq to engramq_worker;
grant update (salt) on audit_chain to engramq_worker;
drop policy own_tenant on audit_chain;
create policy own_tenant_reads on audit_chain for select to engramq_worker
    using (tenant = nullif(current_setting('app.tenant', true), '')::integer);
create policy own_tenant_writes on audit_chain for insert to engramq_worker
    with check (tenant = nullif(current_setting('app.tenant', true), '')::integer);
create policy own_tenant_blanks on audit_chain for update to engramq_worker
    using (tenant = nullif(current_setting('app.tenant', true), '')::integer)
    with check (tenant = nullif(current_setting('app.tenant', true), '')::integer and salt is null);
