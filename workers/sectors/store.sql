-- name: unclassified_contents
-- Those of the given memories whose sector or standing nothing has told yet, and that are not pending. The vector goes along where the sector model
-- knows the embedder that made it. Rows of one page have different turns: see handlers.py.
select
    m.node_id as id, m.content, m.speaker, m.source_type, hashtextextended(m.content, 0) as fingerprint,
    case when e.sha256 = any(%(embedders)s::text[]) then halfvec_send(m.embedding) end as vector,
    row_number() over (partition by m.tableoid, (m.ctid::text::point)[0] order by m.node_id) as turn
from memories m
join embedding_models e on e.id = m.model_id
where m.tenant = %(tenant)s and m.node_id = any(%(ids)s)
    and (m.sector_source is null or m.standing_source is null)
order by m.node_id

-- name: classify_memories
-- Give memories their automatic sectors, null for those that fit none, and say which are standing wishes, but for those
-- that have one by now or another content. It counts as no update.
update memories m set
    sector = case when m.sector_source is null then given.sector else m.sector end,
    sector_confidence = case when m.sector_source is null then given.confidence else m.sector_confidence end,
    sector_source = coalesce(m.sector_source, case when given.sector is null then 'none' else 'auto' end),
    standing = case when m.standing_source is null then nullif(given.standing, false) else m.standing end,
    standing_source = coalesce(m.standing_source, 'auto')
from unnest(
    %(ids)s::uuid[], %(fingerprints)s::bigint[], %(sectors)s::text[], %(confidences)s::double precision[],
    %(standing)s::boolean[]
) as given (id, fingerprint, sector, confidence, standing)
where m.tenant = %(tenant)s and m.node_id = given.id and (m.sector_source is null or m.standing_source is null)
    and hashtextextended(m.content, 0) = given.fingerprint
returning m.node_id
