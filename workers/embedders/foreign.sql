-- name: all_models
-- Every model that has made vectors of this store, of whatever namespace.
select id, name from embedding_models

-- name: count_by_model
-- How many memories of a namespace, those that some search could show, have a vector of which model.
select m.partition, m.model_id, count(*) as memories
from memories m
where m.tenant = %(tenant)s and m.state = 'active' and {current}
    and m.model_id is not null
group by m.partition, m.model_id
