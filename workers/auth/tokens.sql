-- fragment: token_columns
-- All that is told of a token. Its digest may not even be read.
id, %(namespace)s::text as namespace, principal, scopes, untrusted, project, visibility, label, created_by, created_at, expires_at, revoked_at

-- name: insert_token
-- Admit the caller with this token.
insert into tokens (id, tenant, principal, scopes, untrusted, sha256, project, visibility, label, created_by, expires_at)
values (
    %(id)s, %(tenant)s, %(principal)s, %(scopes)s, %(untrusted)s, %(sha256)s, %(project)s, %(visibility)s, %(label)s,
    %(created_by)s, %(expires_at)s
)
returning {token_columns}

-- name: lock_tokens
-- Make tokens of a namespace one after another, until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('engramq.tokens', %(tenant)s))

-- name: token_of_other_trust
-- A token that counts, of the same principal's name with the other trust; the newest.
select id
from tokens
where tenant = %(tenant)s and principal = %(principal)s and untrusted <> %(untrusted)s and revoked_at is null
    and (expires_at is null or expires_at > now())
order by id desc
limit 1

-- name: list_tokens
-- The tokens of a namespace, oldest first.
select {token_columns}
from tokens
where tenant = %(tenant)s
order by id

-- name: first_tokens
-- So many tokens of a namespace: those that count first, then the newest; and how many there are.
select {token_columns}, count(*) over () as total
from tokens
where tenant = %(tenant)s
order by (revoked_at is null and (expires_at is null or expires_at > now())) desc, id desc
limit %(limit)s

-- name: revoke_token
-- Let a token count no longer; no row when there is none of that id, or it is revoked already.
update tokens set revoked_at = now()
where tenant = %(tenant)s and id = %(id)s and revoked_at is null
returning {token_columns}

-- name: token_by_id
-- A token, revoked or not.
select {token_columns}
from tokens
where tenant = %(tenant)s and id = %(id)s

-- name: token_owner
-- Whose a token is, in whatever namespace; no row for one that is unknown, revoked or expired.
select id as token_id, namespace, principal, scopes, untrusted, expires_at, project, visibility
from token_owner(%(sha256)s)
