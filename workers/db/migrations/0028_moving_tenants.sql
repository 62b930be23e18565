-- Moving a tenant to another database, one step after another; see workers/tenants/moving.py.

-- standing: null for a tenant that lives here and may be entered by all, as nearly every one. held: it is read, and
-- writes wait until held_until. left: it lives in `place`, the name of another database (see ENGRAMQ_DATABASES); this row
-- is all that is left here. arriving: it is being copied to here, and nobody enters it yet.
-- move: the move that is under way, as whoever does it tells; null when there is none.
alter table namespaces
    add column standing text check (standing in ('held', 'left', 'arriving')),
    add column place text,
    add column held_until timestamptz,
    add column move jsonb,
    add constraint namespaces_place check ((standing = 'left') = (place is not null)),
    add constraint namespaces_held check ((standing = 'held') = (held_until is not null));

-- Refuse to let a transaction into a tenant that is not simply here; return if it may enter after all.
create function refuse_entry(wanted integer, named text) returns void
language plpgsql as $$
declare
    found_tenant public.namespaces;
begin
    select n.* into found_tenant from public.namespaces n where n.tenant = wanted and n.namespace = named;
    if not found then
        raise exception 'another namespace has this tenant' using errcode = 'EQ001';
    elsif found_tenant.standing = 'left' then
        raise exception 'the tenant is in another database' using errcode = 'EQ011', detail = found_tenant.place;
    elsif found_tenant.standing = 'arriving' then
        raise exception 'the tenant is not here yet' using errcode = 'EQ010';
    elsif found_tenant.held_until > clock_timestamp() and not current_setting('transaction_read_only')::boolean then
        raise exception 'the tenant is held, since it is being moved' using errcode = 'EQ010';
    end if;
end
$$;

-- As in 0007_tenants.sql; the one look at the row tells too whether the tenant is here. A transaction that has entered
-- stays in: who holds or moves a tenant waits for those that are under way.
create or replace function enter_tenant(wanted integer, named text) returns void
language plpgsql set plan_cache_mode = 'force_generic_plan' as $$
begin
    perform set_config('app.tenant', wanted::text, true);
    if not exists (
        select from public.namespaces n where n.tenant = wanted and n.namespace = named and n.standing is null
    ) then
        perform public.refuse_entry(wanted, named);
    end if;
end
$$;

-- Moves that are under way, from here or to here. It concerns every tenant, so it runs as the owner.
create function moves_under_way() returns table (namespace text, standing text, move jsonb)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace, n.standing, n.move from namespaces n where n.move is not null order by 1;
end;
revoke all on function moves_under_way() from public;
grant execute on function moves_under_way() to engramq_worker;

-- The questions about all tenants name those that are here; what is held waits for the next look. A tenant's tokens count
-- where it is.
create or replace function every_namespace() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select namespace from namespaces where standing is null or standing = 'held' order by namespace;
end;

-- While nobody serves the tenant of a token from here, and a move that is under way may have brought it elsewhere or not,
-- nobody here can say that the token is unknown.
create or replace function token_owner(digest text) returns table (
    id uuid, namespace text, principal text, scopes text[], untrusted boolean, expires_at timestamptz, project text
)
language plpgsql stable security definer set search_path = public, pg_temp as $$
#variable_conflict use_column
declare
    found_standing text;
    found_move jsonb;
begin
    return query
    select t.id, n.namespace, t.principal, t.scopes, t.untrusted, t.expires_at, t.project
    from tokens t
    join namespaces n on n.tenant = t.tenant
    where t.sha256 = digest and t.revoked_at is null and (t.expires_at is null or t.expires_at > now())
        and (n.standing is null or n.standing = 'held');
    if found then
        return;
    end if;
    select n.standing, n.move into found_standing, found_move
    from tokens t
    join namespaces n on n.tenant = t.tenant
    where t.sha256 = digest and t.revoked_at is null and (t.expires_at is null or t.expires_at > now());
    if found_standing = 'arriving' or (found_standing = 'left' and found_move is not null) then
        raise exception 'the tenant is being moved' using errcode = 'EQ010';
    end if;
end
$$;

create or replace function loads_over(idle_s double precision, most integer)
returns table (id integer, namespace text, partition text, model_id smallint)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select l.id, n.namespace, l.partition, l.model_id
    from loads l
    join namespaces n on n.tenant = l.tenant
    where n.standing is null and (l.covered or l.rows >= most or l.loaded_at < now() - make_interval(secs => idle_s))
    order by l.id;
end;

create or replace function changed_namespaces(kind text) returns table (namespace text, seen_at timestamptz)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace, now()
    from (
        select distinct c.tenant from changes c
        where kind = 'any' or (kind = 'sweep' and not c.swept) or (kind = 'counts' and not c.counted)
    ) changed
    -- One by one, or all of them would be read.
    cross join lateral (
        select s.namespace from namespaces s where s.tenant = changed.tenant and s.standing is null limit 1
    ) n
    order by 1;
end;

create or replace function expiring_namespaces() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from (
        select distinct m.tenant from memories m
        where m.expires_at is not null and m.expires_at <= now() and m.state <> 'archived'
    ) due
    join namespaces n on n.tenant = due.tenant and n.standing is null
    order by 1;
end;

create or replace function outdated_namespaces(ledger_days integer, pair_days integer, graph_days integer)
returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from namespaces n
    where n.standing is null and (
        n.tenant in (select l.tenant from ledger l where l.created_at < now() - make_interval(days => ledger_days))
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
    )
    order by 1;
end;

create or replace function decaying_namespaces(hours double precision) returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace from namespaces n
    where n.active_hours >= n.links_decayed_at_hours + hours and n.standing is null
    order by 1;
end;

create or replace function rebuilding_namespaces() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from lexeme_rebuilds r
    join namespaces n on n.tenant = r.tenant
    where n.standing is null
    order by r.changed_at, n.namespace;
end;

create or replace function namespaces_without_pieces() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from namespaces n
    where n.standing is null and exists (
        select from memories m
        where m.tenant = n.tenant and m.pieces is null and m.state = 'active' and octet_length(m.content) > 1000
    )
    order by 1;
end;

create or replace function namespaces_to_tell(kept_days integer) returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from (
        select o.tenant from webhook_outbox o where o.dead_at is null and o.next_at <= now()
        union
        select o.tenant from webhook_outbox o where o.dead_at < now() - make_interval(days => kept_days)
    ) due
    join namespaces n on n.tenant = due.tenant and n.standing is null
    order by 1;
end;
