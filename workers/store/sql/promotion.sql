-- name: verify
-- Say how far a memory is vouched for.
update memories set verification = %(verification)s, updated_at = now()
where namespace = %(namespace)s and node_id = %(id)s
returning verification

-- name: promote
-- Move a memory to trusted: of its node's key, which the memory's row follows by its foreign key in this same
-- statement. Who and when is written where the row still stands, so that the move is its only new entry in the indexes.
with stamped as (
    update memories set promoted_at = now(), promoted_by = %(promoted_by)s, updated_at = now()
    where namespace = %(namespace)s and node_id = %(id)s and partition = 'untrusted'
    returning node_id
)
update nodes n set partition = 'trusted', updated_at = now()
from stamped
where n.namespace = %(namespace)s and n.id = stamped.node_id and n.partition = 'untrusted'
returning n.id
