-- name: memory_contents
-- What the ledger does not keep of memories: their contents and names, to make an answer complete again.
select n.id, n.external_id, coalesce(m.tags, '{}') as tags, coalesce(m.evidence, '[]') as evidence, {each contents: m.$name}
from nodes n
join memories m on m.tenant = n.tenant and m.node_id = n.id and m.partition = n.partition
where n.tenant = %(tenant)s and n.id = any(%(ids)s)

-- name: link_notes
-- The notes of the links of these pairs, or of those that a command lets wait.
select distinct on (wanted.low, wanted.high) wanted.low, wanted.high, noted.note
from unnest(%(lows)s::uuid[], %(highs)s::uuid[]) as wanted (low, high)
cross join lateral (
    select e.note, 0 as later
    from edges e
    where e.tenant = %(tenant)s and e.layer = 'association' and e.source_id = wanted.low and e.target_id = wanted.high
    union all
    select d.request ->> 'note', 1
    from deferred_links d
    where d.tenant = %(tenant)s and d.command_id = %(command_id)s
        and least(d.source_id, d.target_id) = wanted.low and greatest(d.source_id, d.target_id) = wanted.high
) noted
order by wanted.low, wanted.high, noted.later

-- name: private_among
-- Whether any of these is a memory or a link that is private to another than the reader (null: nobody), or was when it
-- went: the audit log knows.
select exists (
    select from nodes n
    where n.tenant = %(tenant)s and n.id = any(%(ids)s::uuid[]) and n.owner is not null
        and n.owner is distinct from %(reader)s::text
) or exists (
    select from edges e
    where e.tenant = %(tenant)s and e.id = any(%(ids)s::uuid[]) and e.owner is not null
        and e.owner is distinct from %(reader)s::text
) or exists (
    select from audit_log a
    where a.tenant = %(tenant)s and a.target_id = any(%(ids)s::uuid[]) and a.owner is not null
        and a.owner is distinct from %(reader)s::text
        and not exists (select from nodes n where n.tenant = %(tenant)s and n.id = a.target_id)
        and not exists (select from edges e where e.tenant = %(tenant)s and e.id = a.target_id)
) as private
