-- Spread the tables of tenants over a Citus cluster, all rows of a tenant on one of its nodes. Run once, by the owner, on
-- the coordinator, after `engramq migrate` and before anything is stored:
--
--     psql "$ENGRAMQ_DATABASE_URL" --single-transaction -v ON_ERROR_STOP=1 -f deploy/citus.sql
--
-- Citus 12 or later, PostgreSQL 17 or later, pgvector on every node (CREATE EXTENSION vector), and the role engramq_worker
-- on every node. No Citus was at hand when this was written: it follows the documentation, which tests/store/test_citus.py
-- checks it against. See docs/scaling.md, "Shards".

-- Several changes of tables in one transaction go to one shard after another, not to all at once.
set local citus.multi_shard_modify_mode to 'sequential';

-- What a transaction sets for itself is set on the nodes too: row-level security asks there for the tenant.
do $$
begin
    execute format('alter database %I set citus.propagate_set_commands to %L', current_database(), 'local');
    execute format('alter database %I set citus.multi_shard_modify_mode to %L', current_database(), 'sequential');
    -- Tells workers to set the tenant by a statement of its own, which Citus passes on, and to make no bulk loads.
    execute format('alter database %I set engramq.sharded to %L', current_database(), 'on');
end
$$;

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

-- Whole on every node: the directory of tenants, tokens, which are looked up before their tenant is known, and what all
-- tenants share.
select create_reference_table('namespaces');
select create_reference_table('embedding_models');
select create_reference_table('reembedding');
select create_reference_table('tokens');

-- By tenant, all alike, so that a tenant's rows are together; what is referred to comes first.
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
select create_distributed_table('ledger', 'tenant', colocate_with => 'nodes');
select create_distributed_table('webhooks', 'tenant', colocate_with => 'nodes');
select create_distributed_table('webhook_outbox', 'tenant', colocate_with => 'nodes');

-- What statements call beside the rows of a tenant has to be there.
select create_distributed_function('lexeme_prefix(integer)');
select create_distributed_function('lexeme_query(integer, text)');
select create_distributed_function('tag_keys(integer, text[])');
select create_distributed_function('text_configuration(text)');
select create_distributed_function('words_in(text, text)');
select create_distributed_function('lexemes_of(integer, text, text, text, timestamptz)');
select create_distributed_function('words_asked(text[], text)');
select create_distributed_function('first_distinct(text[], integer)');
select create_distributed_function('audit_ids_kept()');
select create_distributed_function('without_properties(jsonb)');
select create_distributed_function('load_covered(integer, integer, text, smallint)');  -- named by searches, never called
