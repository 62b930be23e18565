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

-- name: hand_over
-- Let what is private to one principal be private to another, with its links. An external id that the other has already
-- stays behind. What was proposed to share it ends: neither who leaves nor who decides may see what it becomes, and
-- consent was given to who leaves.
with going as materialized (
    select n.id, n.external_id, exists (
        select from nodes o where o.tenant = %(tenant)s and o.external_id = n.external_id and o.owner = %(heir)s
            and o.id <> n.id
    ) as is_taken
    from nodes n
    where n.tenant = %(tenant)s and n.owner = %(leaving)s
    order by n.id
    for no key update of n
), node as (
    update nodes n set owner = %(heir)s, external_id = case when not going.is_taken then n.external_id end
    from going
    where n.tenant = %(tenant)s and n.id = going.id
), link as (
    update edges e set owner = %(heir)s where e.tenant = %(tenant)s and e.owner = %(leaving)s
), memory as (
    update memories m set owner = %(heir)s
    from going
    where m.tenant = %(tenant)s and m.node_id = going.id
    returning m.node_id
), ended as (
    update proposals p set rejected_at = now()
    from going
    where p.tenant = %(tenant)s and p.target_id = going.id and p.action = 'share'
        and p.rejected_at is null and p.used_at is null and p.expires_at > now()
    returning p.id
)
select (select count(*) from memory) as memories, (select count(*) from ended) as proposals

-- name: principal_known
-- Whether a token, or a memory that it stored or keeps to itself, knows a principal.
select exists (
    select from tokens t
    where t.tenant = %(tenant)s and t.principal = %(name)s and t.untrusted = %(untrusted)s
) or exists (
    select from memories m where m.tenant = %(tenant)s and (m.owner = %(owner)s or m.created_by = %(name)s)
) as known

-- name: owned_privately
-- How many memories are private to a principal.
select count(*) as memories from memories m where m.tenant = %(tenant)s and m.owner = %(leaving)s
