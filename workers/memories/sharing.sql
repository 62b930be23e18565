-- name: share
-- Let everybody see a private memory. What it replaced is private, and so is not named by it.
with node as (
    update nodes set owner = null, updated_at = now()
    where tenant = %(tenant)s and id = %(id)s and owner is not null
    returning id
)
update memories m set
    owner = null, supersedes = null, updated_at = now()
from node
where m.tenant = %(tenant)s and m.node_id = node.id
returning m.node_id

-- name: share_links
-- Let everybody see the links of a memory that is private no more, except those to private ones. Where others had to
-- consent they judged the memory, not the notes on its links, so what has one stays its owner's.
update edges e set owner = null
where e.tenant = %(tenant)s and (e.source_id = %(id)s or e.target_id = %(id)s) and e.owner is not null
    and (e.note is null or not %(by_consent)s)
    and not exists (
        select from nodes o
        where o.tenant = %(tenant)s and o.id in (e.source_id, e.target_id) and o.owner is not null
    )

-- name: unshare
-- Make a memory private, and forget that rows of an import became it: others may import the like.
with node as (
    update nodes set owner = %(owner)s, updated_at = now()
    where tenant = %(tenant)s and id = %(id)s and owner is null
    returning id
), forgotten as (
    delete from imported_rows r using node where r.tenant = %(tenant)s and r.memory_id = node.id
)
update memories m set owner = %(owner)s, updated_at = now()
from node
where m.tenant = %(tenant)s and m.node_id = node.id
returning m.node_id

-- name: unshare_links
-- Make the links of a memory private with it. Those that somebody else has to it by nobody's word go.
with gone as (
    delete from edges e
    where e.tenant = %(tenant)s and (e.source_id = %(id)s or e.target_id = %(id)s) and e.owner <> %(owner)s
)
update edges e set owner = %(owner)s
where e.tenant = %(tenant)s and (e.source_id = %(id)s or e.target_id = %(id)s) and e.owner is null

-- name: stored_or_shared_by
-- Whether a memory is that of the trusted principal who asks. What the untrusted one of that name stored is, or was,
-- untrusted. Who shared it owned it before: a hook had captured it for them, or it was handed over.
select (m.created_by = %(name)s and m.partition = 'trusted' and m.promoted_at is null) or exists (
    select from audit_log a
    where a.tenant = %(tenant)s and a.target_id = m.node_id and a.action = 'share' and a.actor = %(writer)s
) as own
from memories m
where m.tenant = %(tenant)s and m.node_id = %(id)s

-- name: built_on
-- What others have built on a memory: links that they asserted or that supersessions made, links that wait for it, and
-- memories that cite it, except untrusted and private ones: else anybody could keep it from being taken back. These see
-- that their ground has gone.
-- `id` is the other end, null where the caller does not see it.
select case when e.owner is null or e.owner = %(owner)s then
    case when e.source_id = %(id)s then e.target_id else e.source_id end end as id
from edges e
where e.tenant = %(tenant)s and (e.source_id = %(id)s or e.target_id = %(id)s)
    and e.origin not in ('similarity', 'co_retrieval') and e.owner is distinct from %(owner)s
    and (e.created_by is distinct from %(writer)s or e.owner is not null or e.relation = 'supersedes')
union
select null
from deferred_links d
where d.tenant = %(tenant)s and (d.source_id = %(id)s or d.target_id = %(id)s)
    and (d.principal ->> 'name' is distinct from %(writer)s or d.principal @> '{"untrusted": true}')
union
select m.node_id
from memories m
where m.tenant = %(tenant)s and m.partition = 'trusted' and m.owner is null and m.evidence @? '$[*].memory_id'
    and ground_keys(m.tenant, m.evidence) && array[to_hex(%(tenant)s::integer) || ':' || %(id)s::uuid]
    and m.created_by is distinct from %(writer)s

-- name: with_external_id_of
-- The memory or node of this owner, null: that everybody sees, that has the external id of a memory of another owner.
select o.id
from nodes n
join nodes o on o.tenant = %(tenant)s and o.external_id = n.external_id and o.id <> n.id
where n.tenant = %(tenant)s and n.id = %(id)s and o.owner is not distinct from %(owner)s::text
