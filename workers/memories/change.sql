-- name: archive
-- Hide a memory until it is restored.
update memories set state = 'archived', updated_at = now()
where tenant = %(tenant)s and node_id = %(id)s
returning node_id

-- name: unarchive
-- Bring a memory back to the state that its vector allows; a time of expiry that has passed goes.
with moment as materialized (select now() as now)
update memories m set
    state = case when m.embedding is null then 'pending' else 'active' end,
    expires_at = case when m.expires_at > moment.now then m.expires_at end, updated_at = now()
from moment
where m.tenant = %(tenant)s and m.node_id = %(id)s
returning m.state, m.expires_at

-- name: update_memory
-- Change what is said about a memory: null leaves a column as it is, unless it is named to be cleared. Where all of it is
-- said already nothing is written, and no row comes; whether one stands is told anew wherever that was cleared.
with said as (
    select
        m.node_id, m.partition,
        coalesce(%(sector)s, m.sector) as sector,
        coalesce(%(sector_source)s, m.sector_source) as sector_source,
        case when %(sector)s::text is null then m.sector_confidence end as sector_confidence,
        case when %(standing)s::boolean is not null then 'given'
            when 'standing' <> all(%(cleared)s::text[]) then m.standing_source end as standing_source,
        (case when 'metadata' = any(%(cleared)s::text[]) then '{}' else m.metadata - %(keys)s::text[] end)
            || coalesce(%(metadata)s::jsonb, '{}') as metadata,
        case
            when 'tags' = any(%(cleared)s::text[]) then null
            when %(retagged)s then %(tags)s::text[]
            else m.tags end as tags,
        coalesce(%(confidence)s, m.confidence) as confidence,
        {each detail: case when '$name' <> all(%(cleared)s::text[]) then coalesce(%($name)s, m.$name) end as $name}
    from memories m
    where m.tenant = %(tenant)s and m.node_id = %(id)s
)
update memories m set
    sector = said.sector,
    sector_source = said.sector_source,
    sector_confidence = said.sector_confidence,
    standing_source = said.standing_source,
    metadata = said.metadata,
    tags = said.tags,
    confidence = said.confidence,
    {each detail: $name = said.$name},
    lexemes = case when %(renamed)s then
        lexemes_of(
            m.tenant, {own_language}, m.content, said.speaker,
            case when 'occurred_at' = any(%(cleared)s::text[]) then day_in(m.content)
                when %(occurred_at)s is null then m.told_on
                else day_told(m.content, said.occurred_at, said.occurred_offset) end)
        else m.lexemes end,
    updated_at = now()
from said
where m.tenant = %(tenant)s and m.node_id = said.node_id and m.partition = said.partition
    and ('standing' = any(%(cleared)s::text[]) or row(
        m.sector, m.sector_source, m.sector_confidence, m.standing_source, m.metadata, m.tags, m.confidence,
        {each detail: m.$name}
    ) is distinct from row(
        said.sector, said.sector_source, said.sector_confidence, said.standing_source, said.metadata, said.tags,
        said.confidence, {each detail: said.$name}
    ))
returning m.node_id

-- name: content_of
-- What an erasure has to look for outside the database, and who may order it.
select m.content, m.created_by, m.owner from memories m
where m.tenant = %(tenant)s and m.node_id = %(id)s

-- name: erase_memories
-- Remove memories with everything that hangs on them: rows, links, counters. Their chains let go of them, and notes of
-- links that wait for them, which may say what they said, go.
with let_go as (
    {letting_go}
), noted as (
    update deferred_links d set request = d.request - 'note'
    where d.tenant = %(tenant)s and (d.source_id = any(%(ids)s) or d.target_id = any(%(ids)s))
)
delete from nodes where tenant = %(tenant)s and id = any(%(ids)s)
returning id

-- name: behind
-- What memories that go had replaced. Where one of these was archived or rejected, or goes as well, it is nobody's truth
-- either, and what it had replaced stands in its place. Each is looked up by its key, as in `around`.
with recursive below as (
    select m.superseded_by as gone, m.node_id as id, {going} as going
    from unnest(%(ids)s::uuid[]) as given (id)
    cross join lateral (
        select * from memories o where o.tenant = %(tenant)s and o.superseded_by = given.id offset 0
    ) m
    union
    select below.gone, m.node_id, {going}
    from below
    cross join lateral (
        select * from memories o where o.tenant = %(tenant)s and o.superseded_by = below.id offset 0
    ) m
    where below.going
)
select gone, id from below where not going order by gone, id limit %(limit)s

-- fragment: going
-- Whether a memory m was archived or rejected, or is one of those that go.
({withdrawn} or m.node_id = any(%(ids)s))

-- name: hidden_as_replaced
-- Which of these memories only a supersession hides.
select m.node_id as id
from unnest(%(ids)s::uuid[]) as given (id)
join memories m on m.tenant = %(tenant)s and m.node_id = given.id
where {superseded} and not {withdrawn}
order by m.node_id

-- name: archive_expired
-- Archive memories whose time has passed, the first to expire first; those that somebody is busy with are left for later.
with due as (
    select m.node_id, m.partition, m.state
    from memories m
    where m.tenant = %(tenant)s and m.expires_at is not null and m.expires_at <= now() and m.state <> 'archived'
    order by m.expires_at
    limit %(limit)s
    for no key update skip locked
)
update memories m set state = 'archived', updated_at = now()
from due
where m.tenant = %(tenant)s and m.node_id = due.node_id and m.partition = due.partition
returning m.node_id as id, due.state, m.expires_at

-- name: give_expiry
-- Let memories that a rule of retention is about, and that have no time to expire, expire after so long from now: a few
-- from an id on. Those that somebody is busy with are left for the next time. The last one found is told where there may be
-- more.
with found as materialized (
    select m.node_id
    from memories_in_namespace m
    where m.tenant = %(tenant)s and m.node_id > %(after)s and m.expires_at is null and m.state <> 'archived'
        and (%(source_type)s::text is null or m.source_type = %(source_type)s)
        and (%(tags)s::text[] is null or {tagged})
    order by m.node_id
    limit %(limit)s
), free as (
    select m.node_id, m.partition
    from memories m
    join found on found.node_id = m.node_id
    where m.tenant = %(tenant)s and m.expires_at is null
    for no key update of m skip locked
), given as (
    update memories m set expires_at = now() + %(kept_for)s::interval
    from free
    where m.tenant = %(tenant)s and m.node_id = free.node_id and m.partition = free.partition
    returning m.node_id
)
select case when count(*) = %(limit)s then (array_agg(found.node_id order by found.node_id desc))[1] end as last
from found
