-- name: side_facts
-- What a move asks of a database before anything is done: whether it is the same one as another; whether this role owns
-- it; whether it is a standby, or a cluster of Citus; and which languages it knows.
select
    concat(pg_postmaster_start_time(), ' ', (select oid from pg_database where datname = current_database())) as identity,
    current_user as role,
    not row_security_active('memories')
        and pg_has_role((select relowner from pg_class where oid = 'namespaces'::regclass), 'usage') as owns,
    pg_is_in_recovery() as standby, coalesce(current_setting('engramq.sharded', true) = 'on', false) as sharded,
    array(select languages()) as languages

-- name: lock_move
-- Let nobody else move this namespace, from here or to here, until the session ends, if nobody does now.
select pg_try_advisory_lock(hashtextextended('engramq.moving ' || %(namespace)s, 0)) as locked

-- name: standing_of
-- How a namespace stands; no row where there is none.
select n.tenant, n.standing, n.place, n.move, n.language, to_jsonb(n) as whole
from namespaces n
where n.namespace = %(namespace)s

-- name: begin_move
-- Note a move of a namespace that nobody moves.
update namespaces set move = %(move)s
where namespace = %(namespace)s and move is null and standing is null
returning tenant

-- name: make_room_for_tenant
-- Make the row of a tenant that arrives, or let one arrive that had left from here, or that arrives already: whoever began
-- that has taken it back where it comes from.
insert into namespaces (namespace, standing, move) values (%(namespace)s, 'arriving', %(move)s)
on conflict (namespace) do update set
    standing = 'arriving', place = null,
    move = excluded.move
        || jsonb_build_object('had_left_to', coalesce(namespaces.place, namespaces.move ->> 'had_left_to'))
where (namespaces.standing = 'left' and namespaces.move is null)
    or (namespaces.standing = 'arriving' and namespaces.move -> 'from' = excluded.move -> 'from')
returning tenant

-- name: hold_tenant
-- Let the writes of a tenant wait, for so many seconds at most. Whoever has entered before is still at work.
update namespaces set
    standing = 'held', held_until = clock_timestamp() + make_interval(secs => %(hold_s)s),
    move = move || '{"step": "held"}'
where tenant = %(tenant)s and move ->> 'id' = %(id)s and (standing is null or standing = 'held')
returning tenant

-- name: release_tenant
-- Let a tenant be as it was before its move; it is here.
update namespaces set standing = null, held_until = null, place = null, move = null
where tenant = %(tenant)s and move ->> 'id' = %(id)s
returning tenant

-- name: let_writes_go_on
-- Let a tenant be served here again that is held, or has left and did not arrive; the move goes on with copying.
update namespaces set
    standing = null, held_until = null, place = null, move = (move - 'since') || '{"step": "copying"}'
where tenant = %(tenant)s and move ->> 'id' = %(id)s and standing in ('held', 'left')

-- name: leave_tenant
-- Let a tenant that is held be in another place from now on, if so many seconds of the hold are left. It is noted what is
-- to be asked by for what changed after the last copy, and between which servers that holds.
update namespaces set
    standing = 'left', place = %(place)s, held_until = null,
    move = move || jsonb_build_object('step', 'left', 'since', %(since)s::jsonb)
where tenant = %(tenant)s and move ->> 'id' = %(id)s and standing = 'held'
    and held_until > clock_timestamp() + make_interval(secs => %(left_s)s)
returning tenant

-- name: forget_what_was_copied
-- Have the next look at what changed be one at everything.
update namespaces set move = move - 'since' where tenant = %(tenant)s and move ->> 'id' = %(id)s

-- name: receive_tenant
-- Let a tenant be here from now on, with its clock and its language, and have upkeep look at it.
with received as (
    update namespaces n set
        standing = null, move = null, active_hours = r.active_hours, in_use = r.in_use, in_use_since = r.in_use_since,
        links_decayed_at_hours = r.links_decayed_at_hours, language = r.language, created_at = r.created_at
    from jsonb_populate_record(null::namespaces, %(whole)s) r
    where n.tenant = %(tenant)s and n.move ->> 'id' = %(id)s and n.standing = 'arriving'
    returning n.tenant
), noted as (
    insert into changes (tenant, minute, backend)
    select tenant, date_trunc('minute', now()), pg_backend_pid() from received
    on conflict do nothing
), told as (
    insert into audit_log (tenant, namespace, actor, action, new)
    select tenant, %(namespace)s, %(actor)s, %(action)s, %(told)s from received
)
select tenant from received

-- name: forget_arrival
-- Take back the row of a tenant that was to arrive, whose rows are gone: it goes, or is as it was when it had left.
with back as (
    update namespaces set standing = 'left', place = move ->> 'had_left_to', move = null
    where namespace = %(namespace)s and standing = 'arriving' and move ->> 'had_left_to' is not null
    returning tenant
)
delete from namespaces n
where n.namespace = %(namespace)s and n.standing = 'arriving' and n.move ->> 'had_left_to' is null

-- name: end_move
-- End a move at the database that was left: the row says where the tenant is.
update namespaces set
    move = null, active_hours = 0, in_use = '{}', in_use_since = null, links_decayed_at_hours = 0
where tenant = %(tenant)s and move ->> 'id' = %(id)s and standing = 'left'

-- name: others_under_way
-- The transactions of others that are under way in this database, but those of vacuum.
select coalesce(array_agg(l.virtualxid), '{}') as transactions
from pg_locks l
join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'virtualxid' and l.granted and l.pid <> pg_backend_pid()
    and a.datname = current_database() and a.usename is not null
    and coalesce(a.backend_type, 'client backend') = 'client backend'

-- name: still_under_way
-- Which of these transactions are still under way.
select coalesce(array_agg(l.virtualxid), '{}') as transactions
from pg_locks l
where l.locktype = 'virtualxid' and l.granted and l.virtualxid = any(%(transactions)s)

-- name: begin_looking
-- Begin a transaction whose statements all see one moment.
begin isolation level repeatable read read only

-- name: oldest_under_way
-- Which transaction was the oldest at that moment: what this transaction does not see was written by it or a later one.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest

-- name: models_of_tenant
-- The models of a tenant's vectors.
select e.id, e.name, e.sha256, e.dimensions
from embedding_models e
where e.id in (select m.model_id from memories m where m.tenant = %(tenant)s)

-- name: model_known
-- A model, if this database has it and uses it.
select id from embedding_models
where name = %(name)s and sha256 = %(sha256)s and dimensions = %(dimensions)s and retired_at is null

-- name: choose_model_last
-- Let a model not be the one that all vectors become, unless it is the only one.
update embedding_models e set
    chosen_at = (select min(o.chosen_at) from embedding_models o where o.id <> e.id) - interval '1 second'
where e.id = %(id)s and exists (select from embedding_models o where o.id <> e.id and o.retired_at is null)

-- name: last_audit_id
-- The highest number of a tenant's entries of the audit log.
select coalesce(max(id), 0) as last from audit_log where tenant = %(tenant)s

-- name: moving_statements
-- The statements that copy each of these tables, in their order, from the catalogue. Of each: its rows' keys with the
-- digest of what they say, all those in one of several parts (%(parts)s of them) or that changed since a transaction; the
-- same of given keys; rows as JSON; rows written; rows removed; counted; and removed, so many at a time.
-- `models` maps the models' ids to those of the other database, `prefix` is what lexemes begin with there; null: nothing
-- is translated. Digests are of values as they will be there; those of vectors leave out the type's number, which differs.
with wanted as (
    select w.name, w.place, c.oid
    from unnest(%(tables)s::text[]) with ordinality as w (name, place)
    join pg_class c on c.oid = w.name::regclass
), key_columns as (
    select w.oid, a.attname as name, format_type(a.atttypid, null) as type,
        row_number() over (partition by w.oid order by k.place) as place
    from wanted w
    join pg_index i on i.indrelid = w.oid and i.indisprimary
    cross join lateral unnest(i.indkey::int2[]) with ordinality as k (number, place)
    join pg_attribute a on a.attrelid = w.oid and a.attnum = k.number
    where a.attname <> 'tenant'
), columns as (
    select w.oid, a.attname as name, a.attnum as place, format_type(a.atttypid, null) as type,
        a.attname in (select k.name from key_columns k where k.oid = w.oid) as is_key,
        case
            when w.name = 'memories' and a.attname = 'load_id' then 'null::integer'
            when w.name = 'memories' and a.attname = 'model_id' and %(models)s::jsonb is not null
                then format('(%%L::jsonb ->> t.model_id::text)::smallint', %(models)s::jsonb)
            when w.name = 'memories' and a.attname = 'lexemes' and %(prefix)s::text is not null then format(
                'array_to_tsvector(array(select %%L || substr(word, length(lexeme_prefix(t.tenant)) + 1) '
                'from unnest(tsvector_to_array(t.lexemes)) as word))', %(prefix)s::text)
            else format('t.%%I', a.attname)
        end as expression
    from wanted w
    join pg_attribute a on a.attrelid = w.oid and a.attnum > 0 and not a.attisdropped and a.attname <> 'tenant'
), parts as (
    select w.oid, w.name, w.place,
        (select format('jsonb_build_array(%%s)', coalesce(string_agg(format('t.%%I', k.name), ', ' order by k.place), ''))
            from key_columns k where k.oid = w.oid) as key,
        -- A table with one row for each tenant has no further key.
        (select coalesce(
            string_agg(format('t.%%I = (k.key ->> %%s)::%%s', k.name, k.place - 1, k.type), ' and ' order by k.place), 'true'
        ) from key_columns k where k.oid = w.oid) as same_key,
        (select concat_ws(', ', 'tenant', string_agg(format('%%I', k.name), ', ' order by k.place))
            from key_columns k where k.oid = w.oid) as keys,
        (select string_agg(case c.type
                when 'halfvec' then format('halfvec_send(%%s)', c.expression)
                when 'halfvec[]' then format('(%%s)::text', c.expression)
                else c.expression
            end, ', ' order by c.place) from columns c where c.oid = w.oid) as told,
        (select string_agg(format('%%L, %%s', c.name, c.expression), ', ' order by c.place)
            from columns c where c.oid = w.oid) as named,
        (select string_agg(format('%%I', c.name), ', ' order by c.place) from columns c where c.oid = w.oid) as written,
        (select string_agg(format('r.%%I', c.name), ', ' order by c.place) from columns c where c.oid = w.oid) as given,
        (select string_agg(format('%%1$I = excluded.%%1$I', c.name), ', ' order by c.place)
            from columns c where c.oid = w.oid and not c.is_key) as changed
    from wanted w
)
select
    p.name as table,
    format(
        'select %%s::text as key, sha256(record_send(row(%%s))) as digest from %%I t '
        'where t.tenant = $1 and hashtextextended(%%s::text, 0) & ($3::bigint - 1) = $2::bigint',
        p.key, p.told, p.name, p.key) as digests,
    format(
        'select %%s::text as key, sha256(record_send(row(%%s))) as digest from %%I t '
        'where t.tenant = $1 and age(t.xmin) between -100000 and age(($2::bigint %%%% 4294967296)::text::xid)',
        p.key, p.told, p.name) as changed_digests,
    format(
        'select %%s::text as key, sha256(record_send(row(%%s))) as digest '
        'from unnest($2::jsonb[]) as k (key) join %%I t on t.tenant = $1 and %%s',
        p.key, p.told, p.name, p.same_key) as digests_of,
    format(
        'select %%s::text as key from %%I t '
        'where t.tenant = $1 and hashtextextended(%%s::text, 0) & ($3::bigint - 1) = $2::bigint',
        p.key, p.name, p.key) as keys,
    format(
        'select jsonb_build_object(%%s)::text as row from unnest($2::jsonb[]) as k (key) join %%I t on t.tenant = $1 and %%s',
        p.named, p.name, p.same_key) as rows,
    format(
        'insert into %%1$I (tenant, %%2$s) overriding system value select $1, %%3$s from unnest($2::text[]) as line '
        'cross join lateral jsonb_populate_record(null::%%1$I, line::jsonb) r on conflict (%%4$s) %%5$s',
        p.name, p.written, p.given, p.keys, coalesce('do update set ' || p.changed, 'do nothing')) as write,
    format('delete from %%I t using unnest($2::jsonb[]) as k (key) where t.tenant = $1 and %%s', p.name, p.same_key)
        as remove,
    format('select count(*) as rows from %%I t where t.tenant = $1', p.name) as count,
    format(
        'with gone as (delete from %%1$I t using (select %%2$s::jsonb as key from %%1$I t where t.tenant = $1 limit $2) k '
        'where t.tenant = $1 and %%3$s returning 1) select count(*) as rows from gone',
        p.name, p.key, p.same_key) as purge
from parts p
order by p.place

-- name: moves_under_way
-- Namespaces that are being moved from here or to here, as whoever moves them tells.
select namespace, standing, move from moves_under_way()
