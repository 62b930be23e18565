-- Who may come in, and row-level security as the second lock behind the predicates of every query.

-- Bearer tokens. Only the SHA-256 of a token is kept: a token is 32 random bytes, so nothing slower is needed.
create table tokens (
    id         uuid primary key,  -- UUIDv7
    namespace  text not null check (namespace <> ''),
    principal  text not null check (principal <> ''),
    scopes     text[] not null,
    untrusted  boolean not null default false,
    sha256     text not null unique check (length(sha256) = 64),
    label      text,
    created_by text not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz
);
create index tokens_namespace on tokens (namespace, id);
