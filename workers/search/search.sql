-- name: search_around
-- What lies around the best candidates: the namespace's clock, the links (but those of similarity) of the first few of
-- them, %(seeds)s, and how useful they and the other ends of those links proved.
with link as materialized (
    select e.source_id as seed, e.target_id as other, e.relation, e.weight, e.origin,
        greatest(e.last_active_hours, e.decayed_active_hours) as used
    from edges e
    where e.source_id = any(%(seeds)s::uuid[]) and e.tenant = %(tenant)s and e.layer = 'association'
        and e.relation <> 'supersedes' and e.origin <> 'similarity'
    union all
    select e.target_id, e.source_id, e.relation, e.weight, e.origin,
        greatest(e.last_active_hours, e.decayed_active_hours)
    from edges e
    where e.target_id = any(%(seeds)s::uuid[]) and e.tenant = %(tenant)s and e.layer = 'association'
        and e.relation <> 'supersedes' and e.origin <> 'similarity'
)
select json_build_object(
    'hours', {clock},
    'links', (select json_agg(json_build_array(seed, other, relation, weight, origin, used)) from link),
    'usage', (select json_agg(json_build_array(u.node_id, u.helped, u.hindered, u.last_active_hours))
     from (select unnest(%(best)s::uuid[]) as id union select other from link) wanted
     cross join lateral (
        select u.* from memory_usage u where u.tenant = %(tenant)s and u.node_id = wanted.id offset 0
     ) u)
)::text

-- name: replaced_by_hit
-- Whether each memory held, at %(as_of)s, that the memory %(id)s replaced and that can be shown.
select coalesce({held}, false) as held
from memories m
where m.tenant = %(tenant)s and m.superseded_by = %(id)s and m.partition = any(%(partitions)s::text[]) and not {withdrawn}

-- name: search_linked
-- Those of some memories that the search may find, measured as candidates are.
{as_json}
from (
    select {candidate}, null::float8 as lexical, null::float8 as covered, null::float8 as worth,
        case when m.model_id = %(model_id)s then least({distance}, {by_pieces}) end as distance,
        case when m.model_id = %(model_id)s then {plain_distance} end as plain
    from memories m
    where m.node_id = any(%(ids)s::uuid[]) and {chosen} and m.state = 'active' and m.partition in (%(first)s, %(last)s)
) found

-- name: standing_to_compare
-- Trusted standing wishes of a project and of none that hold, the newest first: id, beginning, the vector where this model
-- made it, and the writer of what nobody has verified.
select json_agg(json_build_array(id, beginning, vector, writer))::text
from (
    select m.node_id as id, left(m.content, %(beginning_chars)s) as beginning,
        case when m.model_id = %(model_id)s then translate(encode(halfvec_send(m.embedding), 'base64'), E'\n', '') end
            as vector,
        case when m.verification not in ('verified', 'approved') then m.created_by end as writer
    from memories m
    where m.tenant = %(tenant)s and m.partition = 'trusted' and m.standing and m.standing_source is not null
        and not {withdrawn} and {holds_now} and {in_project}
    order by m.created_at desc
    limit %(limit)s
) wish

-- name: visible_by_id
-- Those of some memories that are to be shown; of those that the caller has in these versions, %(known)s, only what changes
-- without another one. %(first)s and %(last)s are the partitions one by one: a plan that is kept leaves the other one out by
-- single values, not by an array. Each id is looked up by its key, whatever the statistics say: for an array of ids a
-- table that was not analyzed yet is read through.
select json_build_object(
    'rows', json_agg(shown) filter (where version <> all (%(known)s::text[])),
    'known', json_agg(json_build_array(id, accessed_at, helped, hindered)) filter (where version = any (%(known)s::text[]))
)::text
from (
    select {memory_columns}, concat_ws('/', m.node_id, m.version, n.version) as version
    from unnest(%(ids)s::uuid[]) as wanted (id)
    cross join lateral (
        select m.*, m.xmin as version from memories m
        where {visible} and m.partition in (%(first)s, %(last)s) and m.node_id = wanted.id
        offset 0
    ) m
    cross join lateral (
        select n.external_id, n.xmin as version from nodes n where n.tenant = %(tenant)s and n.id = m.node_id offset 0
    ) n
    left join lateral (
        select u.* from memory_usage u where u.tenant = %(tenant)s and u.node_id = m.node_id offset 0
    ) u on true
) shown

-- name: followed_by
-- What followed some memories in their threads, of their partition and project: the next by position, or where the memory
-- has none by when it was stored; where both say who spoke, the first of these by somebody else. No more than the next
-- eight of the thread are read, as they stand in its index, whether they are shown or not.
select json_agg(json_build_array(hit.id, reply.id, reply.speaker, reply.content))::text
from unnest(%(ids)s::uuid[]) as wanted (id)
cross join lateral (
    select m.node_id as id, m.partition, m.thread, m.position, m.speaker, m.project, m.created_at
    from memories m
    where m.tenant = %(tenant)s and m.partition in (%(first)s, %(last)s) and m.node_id = wanted.id
    offset 0
) hit
cross join lateral (
    select near.id, near.speaker, near.content
    from (
        select m.node_id as id, m.speaker, m.content, m.position, m.created_at
        from (
            (
                select m.*
                from memories m
                where m.tenant = %(tenant)s and m.thread = hit.thread and m.position > hit.position
                    and m.partition in (%(first)s, %(last)s) and m.partition = hit.partition
                order by m.position, m.created_at, m.node_id
                limit 8
            )
            union all
            (
                select m.*
                from memories m
                where hit.position is null and m.tenant = %(tenant)s and m.thread = hit.thread and m.position is null
                    and (m.created_at, m.node_id) > (hit.created_at, hit.id)
                    and m.partition in (%(first)s, %(last)s) and m.partition = hit.partition
                order by m.position, m.created_at, m.node_id
                limit 8
            )
        ) m
        where {visible} and m.project is not distinct from hit.project
        order by m.position, m.created_at, m.node_id
        limit 3
    ) near
    where near.speaker is null or hit.speaker is null or near.speaker <> hit.speaker
    order by near.position, near.created_at, near.id
    limit 1
) reply
