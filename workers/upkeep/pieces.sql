-- name: namespaces_without_pieces
-- Namespaces with long memories that lack the vectors of their pieces.
select namespace from namespaces_without_pieces() as namespace

-- name: without_pieces
-- The next such memories of this model after one, by id.
select m.node_id as id, m.content
from memories m
where m.tenant = %(tenant)s and m.node_id > %(after)s and m.model_id = %(model_id)s
    and m.pieces is null and m.state = 'active' and octet_length(m.content) > 1000
order by m.node_id
limit %(limit)s

-- name: put_pieces
-- Give memories the vectors of the pieces of these contents, none where the model reads one whole. Left alone: those that
-- somebody is changing, that have another content or a vector of another model by now. It counts as no update.
with given as (
    select * from unnest(%(ids)s::uuid[], %(contents)s::text[], %(piece_vectors)s::text[]) as g (id, content, pieces)
), locked as materialized (
    select m.node_id, m.partition, g.pieces::halfvec[] as pieces
    from memories m
    join given g on g.id = m.node_id and g.content = m.content
    where m.tenant = %(tenant)s and m.node_id = any(%(ids)s) and m.model_id = %(model_id)s and m.pieces is null
    order by m.node_id
    for no key update of m skip locked
)
update memories m set pieces = locked.pieces
from locked
where m.tenant = %(tenant)s and m.node_id = locked.node_id and m.partition = locked.partition
returning m.node_id as id
