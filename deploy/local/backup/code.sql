-- All that can run by itself, or be run by others, in the database that this is asked in: kind and name -> digest of what
-- it does. It is one statement, since a PostgreSQL without a postmaster takes one a line. Base64, since it escapes nothing.
with code (kind, name, does) as (
    select 'event trigger', evtname::text, concat_ws(' ', evtevent, evtfoid::regprocedure, evtenabled, evttags::text)
    from pg_event_trigger
    union all
    select 'function', p.oid::regprocedure::text, concat_ws(
            ' ', l.lanname, p.prosecdef, p.proowner::regrole, p.proconfig::text, p.probin, p.prosrc,
            case when p.prosqlbody is not null then pg_get_function_sqlbody(p.oid) end
        )
    from pg_proc p join pg_language l on l.oid = p.prolang
    union all
    select 'trigger', t.tgrelid::regclass || '.' || t.tgname, pg_get_triggerdef(t.oid) from pg_trigger t where not t.tgisinternal
    union all
    select 'rule', r.ev_class::regclass || '.' || r.rulename, pg_get_ruledef(r.oid) from pg_rewrite r
    where r.rulename <> '_RETURN'
    union all
    select 'language', lanname::text, concat_ws(' ', lanpltrusted, lanplcallfoid::regproc, laninline::regproc) from pg_language
    union all
    select 'subscription', subname::text, subconninfo from pg_subscription
    union all
    select 'database', datname::text, '' from pg_database
    union all
    select 'setting of a role or database', setting, setting
    from pg_db_role_setting cross join lateral unnest(setconfig) setting where setting ~ 'preload_libraries'
)
select translate(encode(convert_to(json_object_agg(kind || ' ' || name, md5(does))::text, 'UTF8'), 'base64'), E'\n', '') as code from code
