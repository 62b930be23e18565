-- name: pending_contents
-- Those of the given memories that still wait for a vector.
select m.node_id as id, m.content
from memories m
where m.tenant = %(tenant)s and m.state = 'pending' and m.node_id = any(%(ids)s)
order by m.node_id

-- name: activate_pending
-- Give a memory the vector of this content, unless somebody did, or it has another content, or is pending no more.
update memories set embedding = %(embedding)s::halfvec, model_id = %(model_id)s, pieces = null, state = 'active'
where tenant = %(tenant)s and node_id = %(id)s and state = 'pending' and content = %(content)s
returning node_id

-- name: pending_after
-- Memories that have waited for their vector for longer than a store takes, in a stable order.
select m.node_id as id
from memories m
where m.tenant = %(tenant)s and m.state = 'pending' and m.node_id > %(after)s
    and m.created_at < now() - make_interval(secs => %(older_than_s)s)
order by m.node_id
limit %(limit)s
