-- name: models_chosen
-- All models, the last chosen one first; retired ones last.
select id, name, sha256, retired_at is not null as is_retired
from embedding_models
order by is_retired, chosen_at desc, id desc

-- name: vectors_by_model
-- How many vectors of each model there are in the store.
select model_id, vectors from vectors_by_model()

-- name: foreign_before
-- Of the next so many memories before one, newest first, those whose vectors another model made; and where the next look
-- goes on: null at the end. Reads the primary key: no index says which they are.
with seen as materialized (
    select m.node_id, m.model_id
    from memories m
    where m.tenant = %(tenant)s and m.node_id < %(before)s
    order by m.node_id desc
    limit %(limit)s
)
select
    coalesce((select array_agg(node_id order by node_id desc) from seen where model_id <> %(model_id)s), '{}') as ids,
    (select min(node_id::text)::uuid from seen having count(*) = %(limit)s) as last

-- name: foreign_contents
-- Those of the given memories whose vectors another model made, with what is to be embedded.
select m.node_id as id, m.content
from memories m
where m.tenant = %(tenant)s and m.node_id = any(%(ids)s) and m.model_id <> %(model_id)s
order by m.node_id

-- name: embed_anew
-- Give memories the vectors of this model for these contents. Left alone: those that somebody is changing, that have
-- another content, or a vector of the model by now. It counts as no update. Links of similarity are made again where
-- something was stored since the change began: the two could not be compared.
with given as (
    select * from unnest(%(ids)s::uuid[], %(contents)s::text[], %(embeddings)s::text[]) as g (id, content, embedding)
), locked as materialized (
    select m.node_id, m.partition, g.embedding
    from memories m
    join given g on g.id = m.node_id and g.content = m.content
    where m.tenant = %(tenant)s and m.node_id = any(%(ids)s) and m.model_id <> %(model_id)s
    order by m.node_id
    for no key update of m skip locked
)
update memories m set
    embedding = locked.embedding::halfvec, model_id = %(model_id)s, pieces = null,
    links_made_at = case when not exists (
        select from memories s
        where s.tenant = %(tenant)s and s.created_at >= %(began_at)s
    ) then m.links_made_at end
from locked
where m.tenant = %(tenant)s and m.node_id = locked.node_id and m.partition = locked.partition
returning m.node_id as id

-- name: retire_models
-- Drop the indexes of models that have no vectors left and that nobody uses; how many there were.
select retire_embedding_models(%(unused_s)s) as retired
