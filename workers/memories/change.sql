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
-- Change what is said about a memory: null leaves a column as it is, unless it is named to be cleared.
update memories m set
    sector = coalesce(%(sector)s, m.sector),
    sector_source = coalesce(%(sector_source)s, m.sector_source),
    sector_confidence = case when %(sector)s::text is null then m.sector_confidence end,
    metadata = (case when 'metadata' = any(%(cleared)s::text[]) then '{}' else m.metadata - %(keys)s::text[] end)
        || coalesce(%(metadata)s::jsonb, '{}'),
    tags = case
        when 'tags' = any(%(cleared)s::text[]) then null
        when %(retagged)s then %(tags)s::text[]
        else m.tags end,
    confidence = coalesce(%(confidence)s, m.confidence),
    {each detail: $name = case when '$name' <> all(%(cleared)s::text[]) then coalesce(%($name)s, m.$name) end},
    lexemes = case when %(renamed)s then
        lexemes_of(
            m.tenant, {own_language}, m.content,
            case when 'speaker' <> all(%(cleared)s::text[]) then coalesce(%(speaker)s, m.speaker) end,
            case when 'occurred_at' <> all(%(cleared)s::text[]) then coalesce(%(occurred_at)s, m.occurred_at) end)
        else m.lexemes end,
    updated_at = now()
where m.tenant = %(tenant)s and m.node_id = %(id)s
returning m.node_id

-- name: content_of
-- What an erasure has to look for outside the database, and who may order it.
select m.content, m.created_by from memories m
where m.tenant = %(tenant)s and m.node_id = %(id)s

-- name: erase_nodes
-- Remove memories with everything that hangs on them: rows, links, counters.
delete from nodes where tenant = %(tenant)s and id = any(%(ids)s)
returning id
