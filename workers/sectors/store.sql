-- name: unclassified_contents
-- Those of the given memories that have no sector yet and are not pending. The vector goes along where the sector model
-- knows the embedder that made it. Rows of one page have different turns: see classifier.py.
select
    m.node_id as id, m.content, hashtextextended(m.content, 0) as fingerprint,
    case when e.sha256 = any(%(embedders)s::text[]) then m.embedding::text end as vector,
    row_number() over (partition by m.tableoid, (m.ctid::text::point)[0] order by m.node_id) as turn
from memories m
join embedding_models e on e.id = m.model_id
where m.tenant = %(tenant)s and m.node_id = any(%(ids)s) and m.sector_source is null
order by m.node_id

-- name: classify_memory
-- Give a memory its automatic sector, unless it has one by now or its content is another. It counts as no update.
update memories set sector = %(sector)s, sector_source = 'auto', sector_confidence = %(confidence)s
where tenant = %(tenant)s and node_id = %(id)s and sector_source is null
    and hashtextextended(content, 0) = %(fingerprint)s
returning node_id
