-- Who may come in, and row-level security as the second lock behind the predicates of every query.

-- Bearer tokens. Only the SHA-256 of a token is kept: a token is 32 random bytes, so nothing slower is needed.
create table tokens (
    id         uuid primary key,  -- UUIDv7
    namespace  text not null check (namespace <> ''),
    principal  text not null check (principal <> ''),
    scopes     text[] not null check (scopes <@ array['read', 'write', 'verify', 'admin']),
    untrusted  boolean not null default false,
    sha256     text not null unique check (length(sha256) = 64),
    label      text,
    created_by text not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz
);
create index tokens_namespace on tokens (namespace, id);

-- The workers' role may make and revoke tokens, never read a digest: whose one is, is answered by token_owner alone.
grant insert on tokens to engramq_worker;
grant select (id, namespace, principal, scopes, untrusted, label, created_by, created_at, expires_at, revoked_at)
    on tokens to engramq_worker;
grant update (revoked_at) on tokens to engramq_worker;

-- A transaction sees the rows of the namespace that it has entered (app.namespace), and writes no others. Not entered,
-- or left again, it sees nothing. Foreign keys and their cascades run as the owner, past these policies. Partitions need
-- no policy of their own: the workers' role has no rights on them.
do $$
declare
    name text;
begin
    foreach name in array array[
        'namespaces', 'nodes', 'memories', 'memory_usage', 'lexeme_counts', 'edges', 'link_tombstones', 'deferred_links',
        'co_retrievals', 'proposals', 'approvals', 'audit_log', 'ledger', 'tokens'
    ] loop
        execute format('alter table %I enable row level security', name);
        execute format(
            'create policy own_namespace on %I to engramq_worker '
            'using (namespace = nullif(current_setting(''app.namespace'', true), '''')) '
            'with check (namespace = nullif(current_setting(''app.namespace'', true), ''''))', name);
    end loop;
end
$$;

-- Under a policy an index serves only operators that are marked leakproof, which those of full text, patterns and lower()
-- are not, and only a superuser could mark them. These views read as their owner, whom no policy holds, and have the same
-- condition themselves; being no security barriers they are planned as if the condition stood in the query. That a
-- function in a query could see rows before the condition does is no loss: who may write queries may enter any namespace.
create view memories_in_namespace as
select
    node_id, partition, namespace, thread, position, speaker, occurred_at, sector, verification, state, superseded_by,
    lexemes, created_at
from memories
where namespace = nullif(current_setting('app.namespace', true), '');

create view nodes_in_namespace as
select id, partition, namespace, label, name
from nodes
where namespace = nullif(current_setting('app.namespace', true), '');

grant select on memories_in_namespace, nodes_in_namespace to engramq_worker;

-- The two questions that no single namespace can answer. Both run as the owner.

-- Every tenant, for upkeep to work them one by one.
create function every_namespace() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select namespace from namespaces order by namespace;
end;
revoke all on function every_namespace() from public;
grant execute on function every_namespace() to engramq_worker;

-- Whose a bearer token is; no row for one that is not there, revoked or expired.
create function token_owner(digest text) returns table (
    id uuid, namespace text, principal text, scopes text[], untrusted boolean, expires_at timestamptz
)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select t.id, t.namespace, t.principal, t.scopes, t.untrusted, t.expires_at
    from tokens t
    where t.sha256 = digest and t.revoked_at is null and (t.expires_at is null or t.expires_at > now());
end;
revoke all on function token_owner(text) from public;
grant execute on function token_owner(text) to engramq_worker;
