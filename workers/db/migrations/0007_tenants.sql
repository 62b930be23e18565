-- Small keys that shard: a tenant's number leads every key, where the namespace's text led some of them. Rows and most
-- indexes become smaller, and tables can be distributed by tenant, as Citus does it: no key spans tenants, no foreign
-- key leaves one, and nothing cascades an update. `namespaces` alone knows the names, tokens alone are looked up before
-- their tenant is known: both are small and can be kept whole on every server.

-- Vector indexes are built anew: with the 64 MB that are usual that takes three times as long.
set local maintenance_work_mem = '256MB';

-- Nobody may write between the steps. Each table is written anew once, which builds its indexes anew too.
lock table
    namespaces, nodes, memories, memory_usage, lexeme_counts, edges, link_tombstones, deferred_links, co_retrievals,
    proposals, approvals, audit_log, ledger, tokens
    in access exclusive mode;

-- What is made of the namespace's text goes first.
do $$
declare
    name text;
begin
    foreach name in array array[
        'namespaces', 'nodes', 'memories', 'memory_usage', 'lexeme_counts', 'edges', 'link_tombstones', 'deferred_links',
        'co_retrievals', 'proposals', 'approvals', 'audit_log', 'ledger', 'tokens'
    ] loop
        execute format('drop policy own_namespace on %I', name);
        execute format('insert into namespaces (namespace) select distinct namespace from %I on conflict do nothing', name);
        if name <> 'namespaces' then  -- whose names must not be empty
            execute format('alter table %I drop constraint if exists %I', name, name || '_namespace_check');
        end if;
    end loop;
end
$$;
drop view memories_in_namespace, nodes_in_namespace;
drop function token_owner(text);

alter table approvals drop constraint approvals_proposal_id_fkey, drop constraint approvals_pkey;
alter table memories drop constraint memories_node_id_partition_fkey, drop constraint memories_pkey;
alter table memory_usage drop constraint memory_usage_node_id_fkey, drop constraint memory_usage_pkey;
alter table edges
    drop constraint edges_source_id_fkey, drop constraint edges_target_id_fkey, drop constraint edges_pkey;
alter table link_tombstones
    drop constraint link_tombstones_low_id_fkey, drop constraint link_tombstones_high_id_fkey,
    drop constraint link_tombstones_pkey;
alter table co_retrievals
    drop constraint co_retrievals_low_id_fkey, drop constraint co_retrievals_high_id_fkey,
    drop constraint co_retrievals_pkey;
alter table nodes drop constraint nodes_id_partition_key, drop constraint nodes_pkey;
alter table lexeme_counts drop constraint lexeme_counts_pkey;
alter table proposals drop constraint proposals_pkey;
alter table deferred_links drop constraint deferred_links_pkey;
alter table audit_log drop constraint audit_log_pkey;
alter table ledger drop constraint ledger_pkey;
alter table tokens drop constraint tokens_pkey;
drop index
    nodes_identity, nodes_name, nodes_external_id, nodes_name_folded,
    memories_recent, memories_thread, memories_unfinished, memories_moment,
    edges_knowledge, edges_association, edges_out, edges_in,
    link_tombstones_high, deferred_links_source, deferred_links_target, deferred_links_age,
    co_retrievals_high, co_retrievals_age, proposals_target, proposals_recent,
    audit_log_target, audit_log_recent, audit_log_command,
    ledger_idempotency, ledger_memory, tokens_namespace;

-- The numbers. One is never given again; a backup brings them back with the names.
alter table namespaces drop constraint namespaces_pkey;
alter table namespaces add column tenant integer generated always as identity primary key;
alter table namespaces add constraint namespaces_namespace_key unique (namespace);

-- The tenant of a namespace; null when nobody has written to it yet. Runs as the owner, since nothing is entered yet.
create function tenant_of(named text) returns integer
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select tenant from namespaces where namespace = named;
end;
revoke all on function tenant_of(text) from public;
grant execute on function tenant_of(text) to engramq_worker;

-- The same for who is about to write: a namespace without a number gets one. However many come first at once, they get
-- the same one: whose insert waited in vain finds the other's in a statement of its own.
create function make_tenant(named text) returns integer
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    found_tenant integer;
begin
    select tenant into found_tenant from namespaces where namespace = named;
    if found_tenant is null then
        insert into namespaces (namespace) values (named) on conflict (namespace) do nothing
        returning tenant into found_tenant;
    end if;
    if found_tenant is null then
        select tenant into strict found_tenant from namespaces where namespace = named;
    end if;
    return found_tenant;
end
$$;
revoke all on function make_tenant(text) from public;
grant execute on function make_tenant(text) to engramq_worker;

-- What stands before every lexeme of a tenant: so the one text index finds a tenant's rows alone, and counts them alone,
-- however many tenants share it. No two tenants' can be mixed up, since a number in hexadecimal ends at its colon.
create function lexeme_prefix(tenant integer) returns text
language sql immutable parallel safe
return to_hex(tenant) || ':';

-- A lexeme had four characters of its namespace before it.
create function lexemes_of_tenant(tenant integer, lexemes tsvector) returns tsvector
language sql immutable parallel safe
return (
    select coalesce(array_to_tsvector(array_agg(lexeme_prefix(tenant) || substr(lexeme, 5))), ''::tsvector)
    from unnest(tsvector_to_array(lexemes)) as lexeme
);

-- Every table once.
alter table memories
    alter column namespace type integer using tenant_of(namespace),
    alter column lexemes type tsvector using lexemes_of_tenant(tenant_of(namespace), lexemes);
alter table lexeme_counts
    alter column namespace type integer using tenant_of(namespace),
    alter column lexeme type text using lexeme_prefix(tenant_of(namespace)) || substr(lexeme, 5);
do $$
declare
    name text;
begin
    foreach name in array array[
        'nodes', 'memory_usage', 'edges', 'link_tombstones', 'deferred_links', 'co_retrievals', 'proposals', 'approvals',
        'ledger', 'tokens'
    ] loop
        execute format('alter table %I alter column namespace type integer using tenant_of(namespace)', name);
    end loop;
    foreach name in array array[
        'nodes', 'memories', 'memory_usage', 'lexeme_counts', 'edges', 'link_tombstones', 'deferred_links',
        'co_retrievals', 'proposals', 'approvals', 'ledger', 'tokens'
    ] loop
        execute format('alter table %I rename column namespace to tenant', name);
    end loop;
end
$$;
-- Who reads the audit log reads names, whatever has become of the rest.
alter table audit_log add column tenant integer;
alter table audit_log alter column tenant type integer using tenant_of(namespace);
alter table audit_log alter column tenant set not null;

drop function lexemes_of_tenant(integer, tsvector);
drop function lexeme_query(text, text);
drop function memory_lexemes(text, text, text, timestamptz);
drop function lexeme_prefix(text);

-- The words that full text finds a memory by: its content, who said it, and the date (English month name, day, year),
-- stemmed, without stop words. Immutable in fact: the time zone is given and the month names are not localised.
create function memory_lexemes(tenant integer, content text, speaker text, occurred_at timestamptz) returns tsvector
language sql immutable parallel safe
return (
    select coalesce(array_to_tsvector(array_agg(lexeme_prefix(tenant) || word)), ''::tsvector)
    from unnest(tsvector_to_array(to_tsvector('english'::regconfig, content || ' ' || coalesce(speaker, '') || ' '
        || coalesce(to_char(occurred_at at time zone 'UTC', 'FMDD FMMonth YYYY'), '')))) as word
    where octet_length(word) <= 1000  -- a lexeme may have 2,046 bytes, no word of a language has
);

-- The query that finds the memories of a tenant with one lexeme, whatever characters it has.
create function lexeme_query(tenant integer, lexeme text) returns tsquery
language sql immutable parallel safe
return ('''' || replace(replace(lexeme_prefix(tenant) || lexeme, '\', '\\'), '''', '''''') || '''')::tsquery;

-- The keys. (tenant, id, partition) of nodes is the key that memories follow, so that a memory is in one partition only:
-- a promotion changes both rows in one statement, at whose end the foreign key finds them alike.
alter table nodes add primary key (tenant, id), add unique (tenant, id, partition);
create unique index nodes_identity on nodes (tenant, label, name) where name is not null;
create index nodes_name on nodes (tenant, name) where name is not null;
create unique index nodes_external_id on nodes (tenant, external_id) where external_id is not null;
create index nodes_name_folded on nodes (tenant, lower(name) text_pattern_ops) where name is not null;

-- No index may hold a sector column, nor name one in its condition: see 0001_foundation.sql.
-- Without node_id, or a lookup by key could look as cheap here while the table was never analyzed: among equals in time
-- the sort that follows decides.
create index memories_recent on memories (tenant, created_at desc);
create index memories_thread on memories (tenant, thread, position) where thread is not null;
create index memories_unfinished on memories (tenant, node_id) where state = 'pending';
create index memories_moment on memories (tenant, (coalesce(occurred_at, created_at)));
-- The key after them: of indexes that look equally cheap, as all of an empty table do, the latest is taken, and the plan
-- of the cascade from nodes is kept.
alter table memories
    add primary key (tenant, node_id, partition),
    add foreign key (tenant, node_id, partition) references nodes (tenant, id, partition) on delete cascade;

alter table memory_usage
    add primary key (tenant, node_id),
    add foreign key (tenant, node_id) references nodes (tenant, id) on delete cascade;
alter table lexeme_counts add primary key (tenant, partition, lexeme);

-- An index that is no key begins with its id, which no two tenants share. With the tenant in front, any index of the
-- table looks as good as this one while the statistics call the table empty, and reads all of the tenant's edges.
alter table edges
    add primary key (tenant, id),
    add foreign key (tenant, source_id) references nodes (tenant, id) on delete cascade,
    add foreign key (tenant, target_id) references nodes (tenant, id) on delete cascade;
create unique index edges_knowledge on edges (tenant, source_id, target_id, relation) where layer = 'knowledge';
create unique index edges_association on edges (tenant, source_id, target_id) where layer = 'association';
create index edges_out on edges (source_id, tenant, layer, weight desc, id);
create index edges_in on edges (target_id, tenant, layer, weight desc, id);

alter table link_tombstones
    add primary key (tenant, low_id, high_id),
    add foreign key (tenant, low_id) references nodes (tenant, id) on delete cascade,
    add foreign key (tenant, high_id) references nodes (tenant, id) on delete cascade;
create index link_tombstones_high on link_tombstones (high_id, tenant);

alter table deferred_links add primary key (tenant, id);
create index deferred_links_age on deferred_links (tenant, created_at);
create index deferred_links_source on deferred_links (source_id, tenant);
create index deferred_links_target on deferred_links (target_id, tenant);

create index co_retrievals_age on co_retrievals (tenant, seen_at);
alter table co_retrievals
    add primary key (tenant, low_id, high_id),
    add foreign key (tenant, low_id) references nodes (tenant, id) on delete cascade,
    add foreign key (tenant, high_id) references nodes (tenant, id) on delete cascade;
create index co_retrievals_high on co_retrievals (high_id, tenant);

alter table proposals add primary key (tenant, id);
create index proposals_target on proposals (tenant, target_id);
create index proposals_recent on proposals (tenant, created_at desc, id desc);
alter table approvals
    add primary key (tenant, proposal_id, principal),
    add foreign key (tenant, proposal_id) references proposals (tenant, id) on delete cascade;

alter table audit_log add primary key (tenant, id);
create index audit_log_target on audit_log (tenant, target_id);
create index audit_log_command on audit_log (command_id, tenant);

-- The one on memory_id is not made again: nothing reads by it, and without it the answer is written in place.
alter table ledger add primary key (tenant, command_id);
create unique index ledger_idempotency on ledger (tenant, principal, idempotency_key) where idempotency_key is not null;

alter table tokens add primary key (tenant, id);

-- A transaction sees the rows of the tenant that it has entered (app.tenant), and writes no others. Not entered, or left
-- again, it sees nothing. What 0005_trust.sql says of foreign keys, partitions and the views holds as before.
do $$
declare
    name text;
begin
    foreach name in array array[
        'namespaces', 'nodes', 'memories', 'memory_usage', 'lexeme_counts', 'edges', 'link_tombstones', 'deferred_links',
        'co_retrievals', 'proposals', 'approvals', 'audit_log', 'ledger', 'tokens'
    ] loop
        execute format(
            'create policy own_tenant on %I to engramq_worker '
            'using (tenant = nullif(current_setting(''app.tenant'', true), '''')::integer) '
            'with check (tenant = nullif(current_setting(''app.tenant'', true), '''')::integer)', name);
    end loop;
end
$$;

create view memories_in_namespace as
select
    node_id, partition, tenant, thread, position, speaker, occurred_at, sector, verification, state, superseded_by,
    lexemes, created_at
from memories
where tenant = nullif(current_setting('app.tenant', true), '')::integer;

create view nodes_in_namespace as
select id, partition, tenant, label, name
from nodes
where tenant = nullif(current_setting('app.tenant', true), '')::integer;

grant select on memories_in_namespace, nodes_in_namespace to engramq_worker;

-- Enter a tenant, which has to be this namespace's: a process remembers numbers, and a database that was emptied or
-- brought back from a backup behind its back may know others. Better an error than a stranger's rows.
create function enter_tenant(wanted integer, named text) returns void
language plpgsql set plan_cache_mode = 'force_generic_plan' as $$
begin
    perform set_config('app.tenant', wanted::text, true);
    if not exists (select from public.namespaces n where n.tenant = wanted and n.namespace = named) then
        raise exception 'another namespace has this tenant' using errcode = 'EQ001';
    end if;
end
$$;

-- Numbers are given by make_tenant alone, and no name is ever taken away; the clock is the workers' to write.
revoke insert, update, delete on namespaces from engramq_worker;
grant update (active_hours, in_use, in_use_since) on namespaces to engramq_worker;

-- Whose a bearer token is; no row for one that is not there, revoked or expired. Runs as the owner.
create function token_owner(digest text) returns table (
    id uuid, namespace text, principal text, scopes text[], untrusted boolean, expires_at timestamptz
)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select t.id, n.namespace, t.principal, t.scopes, t.untrusted, t.expires_at
    from tokens t
    join namespaces n on n.tenant = t.tenant
    where t.sha256 = digest and t.revoked_at is null and (t.expires_at is null or t.expires_at > now());
end;
revoke all on function token_owner(text) from public;
grant execute on function token_owner(text) to engramq_worker;
