-- name: why
-- What is known of why a memory is known, a row for each line of its card, the newest of each kind, and how many of that
-- kind there are: about what, when, who, which other memory, why, and the number of the entry in the audit log where
-- there is one: storing, use and links made by themselves have none. The memory and the others have to be seen by the
-- caller, and the others are trusted unless untrusted ones are asked for too. Of entries that are another's than the
-- reader's the card tells no more than the audit log does.
with said as (
    select m.* from memories m where m.tenant = %(tenant)s and m.node_id = %(id)s
), entries as (
    select a.id, a.at, a.actor, a.action, a.old, case when {readable} then a.new - 'together' end as new,
        case when {readable} then a.reason end as reason
    from audit_log a
    where a.tenant = %(tenant)s and a.target_id = %(id)s and exists (select from said)
), lines as (
    select 'recorded' as about, s.created_at as at, s.created_by as by, null::uuid as other, null::text as reason,
        null::bigint as audit_id, jsonb_strip_nulls(jsonb_build_object(
            'thread', s.thread, 'position', s.position, 'speaker', s.speaker, 'source', s.source,
            'source_type', s.source_type, 'external_id', n.external_id, 'project', s.project
        )) as details
    from said s
    join nodes n on n.tenant = %(tenant)s and n.id = s.node_id
    union all
    select 'trusted', e.at, e.actor, null, e.reason, e.id, jsonb_build_object('action', e.action, 'new', e.new)
    from entries e
    where e.action in ('verify', 'promote', 'share', 'unshare')
    union all
    select case when m.node_id = s.superseded_by then 'replaced_by' else 'replacing' end,
        coalesce(a.at, s.superseded_at), a.actor, m.node_id, a.reason, a.id, '{}'
    from said s
    join memories m on m.tenant = %(tenant)s and (m.node_id = s.superseded_by or m.superseded_by = s.node_id)
        and (m.partition = 'trusted' or %(include_untrusted)s)
    left join lateral (
        select a.id, a.at, a.actor, case when {readable} then a.reason end as reason
        from audit_log a
        where a.tenant = %(tenant)s and a.action = 'supersede'
            and a.target_id = case when m.node_id = s.superseded_by then s.node_id else m.node_id end
        order by a.id desc
        limit 1
    ) a on true
    union all
    select 'used', u.accessed_at, null, null, null, null,
        jsonb_build_object('found', u.access_count, 'helped', u.helped, 'misled', u.hindered)
    from memory_usage u
    where u.tenant = %(tenant)s and u.node_id = %(id)s and exists (select from said)
    union all
    select 'outcomes', e.at, e.actor, null, e.reason, e.id, coalesce(e.new, '{}') from entries e where e.action = 'outcome'
    union all
    select 'linked', l.created_at, l.created_by, m.node_id, l.note, null,
        jsonb_build_object('relation', l.relation, 'weight', l.weight, 'origin', l.origin)
    from edges l
    join memories m on m.tenant = %(tenant)s
        and m.node_id = case when l.source_id = %(id)s then l.target_id else l.source_id end and not {withdrawn}
        and (m.partition = 'trusted' or %(include_untrusted)s)
    where l.tenant = %(tenant)s and l.layer = 'association' and l.relation <> 'supersedes'
        and (l.source_id = %(id)s or l.target_id = %(id)s)
    union all
    select 'resting_on', m.created_at, m.created_by, m.node_id, null, null, '{}'
    from memories m
    where m.tenant = %(tenant)s and m.evidence @? '$[*].memory_id'
        and ground_keys(m.tenant, m.evidence) && array[to_hex(%(tenant)s::integer) || ':' || %(id)s::uuid]
        and not {withdrawn} and exists (select from said) and (m.partition = 'trusted' or %(include_untrusted)s)
), counted as (
    select l.*, row_number() over (partition by about order by at desc) as place, count(*) over (partition by about) as of_kind
    from lines l
)
select c.about, c.at, c.by, c.other, c.reason, c.audit_id, c.details, c.of_kind
from counted c
where c.place <= %(limit)s
order by c.about, c.at desc
