-- name: tenant_contents
-- How much a tenant holds, and when anybody last did anything there.
select
    (select n.language from namespaces n where n.tenant = %(tenant)s) as language,
    coalesce((
        select jsonb_object_agg(s.state, s.memories)
        from (select m.state, count(*) as memories from memories m where m.tenant = %(tenant)s group by 1) s
    ), '{}') as by_state,
    (select coalesce(sum(octet_length(m.content)), 0)::bigint from memories m where m.tenant = %(tenant)s) as bytes,
    (select count(*) from nodes n where n.tenant = %(tenant)s and n.name is not null) as nodes,
    (select count(*) from edges e where e.tenant = %(tenant)s and e.layer = 'knowledge') as edges,
    (select count(*) from edges e where e.tenant = %(tenant)s and e.layer = 'association') as links,
    (select count(*) from tokens t where t.tenant = %(tenant)s) as tokens,
    (select count(*) from webhooks w where w.tenant = %(tenant)s) as webhooks,
    greatest(
        (select max(m.updated_at) from memories m where m.tenant = %(tenant)s),
        (select max(n.updated_at) from nodes n where n.tenant = %(tenant)s),
        (select max(e.updated_at) from edges e where e.tenant = %(tenant)s),
        (select max(l.created_at) from ledger l where l.tenant = %(tenant)s),
        (select max(a.at) from audit_log a where a.tenant = %(tenant)s)
    ) as last_activity
