-- What memories are filtered by: tags, and the project that they belong to. Most rows have no tags, and the index of tags,
-- which holds the others alone, costs their writers nothing.
alter table memories add column tags text[], add column project text;

-- Tags with their tenant before them, as lexemes have it: so the one index finds a tenant's rows alone.
create function tag_keys(tenant integer, tags text[]) returns text[]
language sql immutable strict parallel safe
return (select array_agg(lexeme_prefix(tenant) || tag) from unnest(tags) as tag);

create index memories_tags on memories using gin (tag_keys(tenant, tags)) where tags is not null;
-- Whoever searches a project sees what is in none too, so rows without one are in the index. It does not begin with the
-- tenant, or it would look as good as a key while the statistics call the table empty.
create index memories_project on memories (project, tenant);

-- An index that no leakproof operator uses serves the workers' role through this view alone: see 0005_trust.sql.
create or replace view memories_in_namespace as
select
    node_id, partition, tenant, thread, position, speaker, occurred_at, sector, verification, state, superseded_by,
    lexemes, created_at, source_type, created_by, tags, project
from memories
where tenant = nullif(current_setting('app.tenant', true), '')::integer;

-- The project of whoever comes in by a token, for calls that name none.
alter table tokens add column project text;
grant select (project) on tokens to engramq_worker;

drop function token_owner(text);
create function token_owner(digest text) returns table (
    id uuid, namespace text, principal text, scopes text[], untrusted boolean, expires_at timestamptz, project text
)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select t.id, n.namespace, t.principal, t.scopes, t.untrusted, t.expires_at, t.project
    from tokens t
    join namespaces n on n.tenant = t.tenant
    where t.sha256 = digest and t.revoked_at is null and (t.expires_at is null or t.expires_at > now());
end;
revoke all on function token_owner(text) from public;
grant execute on function token_owner(text) to engramq_worker;
