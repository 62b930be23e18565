-- Bulk loads: their rows stay out of the vector index until it is built anew at the end of the load, which takes a row a
-- fraction of the time that inserting it takes.

-- Loads whose rows are not in the vector index, or not surely; a row goes when the index has been built. Every search by
-- index compares their rows exactly.
create table loads (
    tenant    integer not null,
    id        integer generated always as identity,
    partition text not null check (partition in ('trusted', 'untrusted')),
    model_id  smallint not null references embedding_models (id),
    covered   boolean not null default false,  -- over: what touches the vector index from now on takes its rows in
    rows      integer not null default 0,      -- that have come
    loaded_at timestamptz not null default now(),
    primary key (tenant, id)
) with (fillfactor = 50);
create unique index loads_open on loads (tenant, partition, model_id) where not covered;
alter table loads enable row level security;
create policy own_tenant on loads to engramq_worker
    using (tenant = nullif(current_setting('app.tenant', true), '')::integer)
    with check (tenant = nullif(current_setting('app.tenant', true), '')::integer);
grant select, insert, update, delete on loads to engramq_worker;

alter table memories add column load_id integer;  -- the load that brought it, if that was a large one; never changed
create index memories_load on memories (load_id, tenant) where load_id is not null;

-- Whether the vector index takes a row of a load: its condition asks this whenever such a row comes to the index. Only a
-- load that is open says no, and only to the partition and the model that it was opened for: what is promoted or gets
-- another model's vector goes into the index that it has then.
--
-- Declared immutable, which conditions of indexes have to be, though the answer changes once, from no to yes. What that
-- would break is seen to:
-- * Rows that came before are missing from the index: searches compare them exactly until the index has been built anew,
--   and the load is forgotten only after that. An index with more rows than it needs is no harm.
-- * A writer that still reads "no" while the index is built: a statement takes its snapshot after its lock on memories,
--   and a build waits for all who hold one. So writers have to read what is committed, as `begin` says.
-- * A restore of a backup: rows come before indexes. Where they did not, an unknown load says yes.
create function load_covered(tenant integer, load integer, partition text, model smallint) returns boolean
language sql immutable security definer set search_path = public, pg_temp
return not exists (
    select from loads l
    where l.tenant = load_covered.tenant and l.id = load and l.partition = load_covered.partition
        and l.model_id = model and not l.covered
);
revoke all on function load_covered(integer, integer, text, smallint) from public;
grant execute on function load_covered(integer, integer, text, smallint) to engramq_worker;

-- Make the vector index of a model that has none.
create function make_vector_index(model smallint) returns void
language plpgsql set search_path = public, pg_temp as $$
begin
    execute format(
        'create index if not exists %I on memories using hnsw ((embedding::halfvec(%s)) halfvec_cosine_ops) '
        'with (m = 16, ef_construction = 64) '
        'where model_id = %s and (load_id is null or load_covered(tenant, load_id, partition, model_id))',
        'memories_embedding_' || model, (select dimensions from embedding_models where id = model), model);
end
$$;
revoke all on function make_vector_index(smallint) from public;

create or replace function register_embedding_model(model_name text, model_sha256 text, model_dimensions integer)
returns smallint
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    found_id smallint;
begin
    select id into found_id from embedding_models
    where name = model_name and sha256 = model_sha256 and dimensions = model_dimensions;
    if found then
        return found_id;
    end if;
    perform pg_advisory_xact_lock(hashtextextended('engramq.embedding_models', 0));
    insert into embedding_models (name, sha256, dimensions)
    values (model_name, model_sha256, model_dimensions)
    on conflict (name, sha256, dimensions) do nothing;
    select id into strict found_id from embedding_models
    where name = model_name and sha256 = model_sha256 and dimensions = model_dimensions;
    perform make_vector_index(found_id);
    return found_id;
end
$$;

do $$
declare
    model smallint;
begin
    for model in select id from embedding_models loop
        execute format('drop index if exists %I', 'memories_embedding_' || model);
        perform make_vector_index(model);
    end loop;
end
$$;

-- Building an index anew is maintenance, which reads nothing; it is done on the partitions.
grant maintain on memories_trusted, memories_untrusted to engramq_worker;

-- Every tenant's loads that are over: nothing has come for so many seconds, or so many rows have, or the index was being
-- built.
create function loads_over(idle_s double precision, most integer)
returns table (id integer, namespace text, partition text, model_id smallint)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select l.id, n.namespace, l.partition, l.model_id
    from loads l
    join namespaces n on n.tenant = l.tenant
    where l.covered or l.rows >= most or l.loaded_at < now() - make_interval(secs => idle_s)
    order by l.id;
end;
revoke all on function loads_over(double precision, integer) from public;
grant execute on function loads_over(double precision, integer) to engramq_worker;

-- Remove what a build that was broken off has left behind: an index that nothing reads and every write pays for. Only
-- for whoever holds the lock of the builds. It waits for who uses the table, and all others behind it, for a moment
-- only: what is still in use is left to the next time.
create function drop_broken_indexes() returns integer
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    broken regclass;
    dropped integer := 0;
begin
    perform set_config('lock_timeout', '100ms', true);
    for broken in
        select i.indexrelid from pg_index i join pg_class c on c.oid = i.indexrelid
        where i.indrelid in ('memories_trusted'::regclass, 'memories_untrusted'::regclass)
            and not i.indisvalid and c.relname ~ '_cc(new|old)[0-9]*$'
    loop
        begin
            execute format('drop index %s', broken);
            dropped := dropped + 1;
        exception when lock_not_available then
            null;
        end;
    end loop;
    return dropped;
end
$$;
revoke all on function drop_broken_indexes() from public;
grant execute on function drop_broken_indexes() to engramq_worker;
