-- name: verify
-- Say how far a memory is vouched for.
update memories set verification = %(verification)s, updated_at = now()
where tenant = %(tenant)s and node_id = %(id)s
returning verification

-- name: promote
-- Move a memory to trusted: its node's key and its row, in one statement. The foreign key would take the row along by
-- itself, but writing down who and when would then be a second version of it, which may cost a second entry in the
-- index of vectors. That both go the same way is checked by the key when the statement ends.
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
