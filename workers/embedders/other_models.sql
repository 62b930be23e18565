-- name: models_in_use
-- Every model that there may be vectors of, of whatever namespace.
select id, name, sha256, dimensions from embedding_models where retired_at is null

-- name: count_by_model
-- How many memories of a namespace, those that some search could show, have a vector of which model.
select m.partition, m.model_id, count(*) as memories
from memories m
where m.tenant = %(tenant)s and m.state = 'active' and {current}
    and m.model_id is not null
group by m.partition, m.model_id
