-- name: supersede
-- Hide an old memory behind a new one: both rows. The old one holds until the new one begins, unless it ended before.
with began as materialized (
    select coalesce(n.valid_from, n.created_at) as at, now() as now from memories n
    where n.tenant = %(tenant)s and n.node_id = %(new_id)s
)
update memories m set
    superseded_from = case when m.node_id = %(old_id)s then began.at else m.superseded_from end,
    superseded_by = case when m.node_id = %(old_id)s then %(new_id)s::uuid else m.superseded_by end,
    superseded_at = case when m.node_id = %(old_id)s then began.now else m.superseded_at end,
    supersedes = case when m.node_id = %(new_id)s then %(old_id)s::uuid else m.supersedes end,
    updated_at = now()
from began
where m.tenant = %(tenant)s and m.node_id = any(array[%(old_id)s, %(new_id)s]::uuid[])
returning m.node_id

-- name: successors
-- The memories that replaced a memory, one after the other.
with recursive chain as (
    select m.superseded_by as id, 1 as steps from memories m
    where m.tenant = %(tenant)s and m.node_id = %(id)s
    union all
    select m.superseded_by, chain.steps + 1 from memories m
    join chain on m.node_id = chain.id
    where m.tenant = %(tenant)s and chain.steps < 100000
)
select id from chain where id is not null order by steps

-- name: link_supersedes
-- The link between a memory and the one that replaced it. A link that stands between them becomes it, and is kept in
-- the properties so that a restoration can bring it back.
insert into edges (
    id, tenant, layer, source_id, target_id, relation, weight, origin, declared_from, created_by, updated_by, owner
) values (
    %(id)s, %(tenant)s, 'association', least(%(old_id)s::uuid, %(new_id)s::uuid),
    greatest(%(old_id)s::uuid, %(new_id)s::uuid), %(relation)s, 1.0, %(origin)s, %(new_id)s, %(writer)s, %(writer)s,
    %(owner)s
)
on conflict (tenant, source_id, target_id) where layer = 'association' do update set
    relation = excluded.relation, weight = excluded.weight, origin = excluded.origin,
    declared_from = excluded.declared_from, updated_at = excluded.updated_at, updated_by = excluded.updated_by,
    properties = jsonb_set(edges.properties, array['replaced_link'], jsonb_set(
        jsonb_object(array['relation', 'origin', 'declared_from'],
            array[edges.relation, edges.origin, edges.declared_from::text]),
        array['weight'], edges.weight::text::jsonb))
returning id

-- name: owners_among
-- Whose those of these memories are that are private.
select m.node_id as id, m.owner from unnest(%(ids)s::uuid[]) as given (id)
join memories m on m.tenant = %(tenant)s and m.node_id = given.id and m.owner is not null

-- name: unlink_supersedes
-- Remove the link of a supersession that is undone, unless it took the place of another link.
delete from edges
where tenant = %(tenant)s and layer = 'association' and relation = %(relation)s
    and source_id = least(%(old_id)s::uuid, %(new_id)s::uuid)
    and target_id = greatest(%(old_id)s::uuid, %(new_id)s::uuid)
    and not properties ? 'replaced_link'
returning id

-- name: relink_replaced
-- Bring back the link whose place the link of a supersession took.
update edges set
    relation = properties #>> '{replaced_link,relation}',
    weight = (properties #>> '{replaced_link,weight}')::double precision,
    origin = properties #>> '{replaced_link,origin}',
    declared_from = (properties #>> '{replaced_link,declared_from}')::uuid,
    properties = properties - 'replaced_link',
    updated_at = now(), updated_by = %(writer)s
where tenant = %(tenant)s and layer = 'association' and relation = %(relation)s
    and source_id = least(%(old_id)s::uuid, %(new_id)s::uuid)
    and target_id = greatest(%(old_id)s::uuid, %(new_id)s::uuid)
    and properties ? 'replaced_link'
returning id

-- name: reveal
-- Undo a supersession: the old memory is hidden no more, and does not end where the new one begins.
update memories set superseded_by = null, superseded_at = null, superseded_from = null, updated_at = now()
where tenant = %(tenant)s and node_id = %(id)s
returning node_id

-- fragment: all_replaced_by
-- The memories that the memory %(id)s replaced, the last first: their link tells when.
select o.node_id as id
from memories o
left join edges e on e.tenant = o.tenant and e.layer = 'association'
    and e.source_id = least(o.node_id, %(id)s::uuid) and e.target_id = greatest(o.node_id, %(id)s::uuid)
where o.tenant = %(tenant)s and o.superseded_by = %(id)s
order by e.updated_at desc nulls last, o.node_id desc

-- name: point_to_previous
-- Let a memory say that it supersedes the one that it replaced last, of those that it still replaces.
update memories m set
    supersedes = ({all_replaced_by} limit 1),
    updated_at = now()
where m.tenant = %(tenant)s and m.node_id = %(id)s
returning m.node_id

-- name: replaced_by
-- The memories that this one replaced, the last first.
{all_replaced_by}

-- name: around
-- The memories that these replaced, and those that replaced them. Each is looked up by its key, since one plan serves all
-- tenants: where most are small it would read all that is superseded, which of a large one takes long.
select o.node_id as id from memories o
where o.tenant = %(tenant)s and o.superseded_by = any(%(ids)s)
union all
select s.node_id from unnest(%(ids)s::uuid[]) as given (id)
cross join lateral (
    select o.superseded_by from memories o where o.tenant = %(tenant)s and o.node_id = given.id offset 0
) m
join memories s on s.tenant = %(tenant)s and s.node_id = m.superseded_by

-- name: lock_around
-- Lock memories with those, and with others beside.
{locked_memories}
where n.tenant = %(tenant)s and n.id = any(%(ids)s::uuid[] || %(beside)s::uuid[]
    || array(select o.node_id from memories o where o.tenant = %(tenant)s and o.superseded_by = any(%(ids)s))
    || array(select m.superseded_by from unnest(%(ids)s::uuid[]) as given (id)
        cross join lateral (
            select o.superseded_by from memories o where o.tenant = %(tenant)s and o.node_id = given.id offset 0
        ) m where m.superseded_by is not null))
order by n.id
for no key update of n, m

-- name: move_end
-- Let what a memory replaced end where it begins now.
update memories o set superseded_from = coalesce(n.valid_from, n.created_at)
from memories n
where n.tenant = %(tenant)s and n.node_id = %(id)s and o.tenant = %(tenant)s and o.superseded_by = %(id)s

-- name: rehang
-- Let a memory be hidden by another one than before.
update memories set superseded_by = %(new_id)s, updated_at = now()
where tenant = %(tenant)s and node_id = %(id)s
returning node_id

-- fragment: letting_go
-- Let what memories that are to be erased had replaced point to them no more; it stays hidden until it is restored.
update memories set
    superseded_by = null, superseded_at = coalesce(superseded_at, updated_at), updated_at = now()
where tenant = %(tenant)s and superseded_by = any(%(ids)s)
returning node_id

-- name: let_go
-- The same for memories that go out of sight.
{letting_go}
