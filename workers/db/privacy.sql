-- name: privacy_of
-- How a namespace keeps private memories.
select visibility, sharing_consent as consent, admins_read from namespaces where tenant = %(tenant)s

-- name: usual_visibility
-- The visibility of memories that state none, and of captured ones, null: shared. The latter is
-- private where others than its person come in by tokens. Whether the viewer keeps anything private of this trust.
select json_build_array(n.visibility, exists (
    select from memories m
    where m.tenant = %(tenant)s and m.owner = %(owner)s::text and m.partition = %(partition)s and not {withdrawn}
), coalesce(n.visibility, case when exists (
    select from tokens t
    where t.tenant = %(tenant)s and t.principal <> %(person)s and t.revoked_at is null
        and (t.expires_at is null or t.expires_at > now())
) then 'private' end))::text
from namespaces n
where n.tenant = %(tenant)s

-- name: change_privacy
-- Keep them in another way, where the value is not null; 'default' takes a default back.
update namespaces set
    visibility = case when %(visibility)s = 'default' then null else coalesce(%(visibility)s, visibility) end,
    sharing_consent = coalesce(%(consent)s, sharing_consent),
    admins_read = coalesce(%(admins_read)s, admins_read)
where tenant = %(tenant)s

-- name: private_of_others
-- How many private memories are not the viewer's own.
select count(*) as memories from memories m
where m.tenant = %(tenant)s and m.owner is not null and m.owner is distinct from %(mine)s
