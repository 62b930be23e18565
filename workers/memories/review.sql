-- name: verify
-- Say how far a memory is vouched for.
update memories set verification = %(verification)s, updated_at = now()
where tenant = %(tenant)s and node_id = %(id)s
returning verification

-- name: promote
-- Move a memory to trusted: its node's key and its row, in one statement, at whose end the foreign key finds them alike
-- or undoes both. One version of the row tells the move, who and when: each may cost an entry in the index of vectors.
with moved as (
    update nodes set partition = 'trusted', updated_at = now()
    where tenant = %(tenant)s and id = %(id)s and partition = 'untrusted'
    returning id
)
update memories m set
    partition = 'trusted', promoted_at = now(), promoted_by = %(promoted_by)s, updated_at = now()
from moved
where m.tenant = %(tenant)s and m.node_id = moved.id and m.partition = 'untrusted'
returning m.node_id
