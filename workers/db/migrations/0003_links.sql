-- Links between memories: what waits for an end that is still pending, what must not be made again, and pairs that were
-- recalled together.

-- Links that somebody took away: automatic writers do not make them again, an agent may (and removes the tombstone).
create table link_tombstones (
    namespace  text not null check (namespace <> ''),
    low_id     uuid not null references nodes (id) on delete cascade,
    high_id    uuid not null references nodes (id) on delete cascade,
    created_at timestamptz not null default now(),
    primary key (low_id, high_id),
    check (low_id < high_id)
);
create index link_tombstones_high on link_tombstones (high_id);

-- Links that were asked for while an end was pending, in the order of their ids: each is made as a connect, or dropped,
-- once both ends are active or one is gone. No foreign keys, so that what waits for an erased end is settled too.
create table deferred_links (
    id         uuid primary key,  -- UUIDv7
    namespace  text not null check (namespace <> ''),
    source_id  uuid not null,
    target_id  uuid not null,
    request    jsonb not null,    -- a LinkRequest without its ends
    principal  jsonb not null,    -- who asked
    command_id uuid not null,     -- whose answer tells later what became of it
    item       integer,           -- its index in a batch
    created_at timestamptz not null default now()
);
create index deferred_links_source on deferred_links (source_id);
create index deferred_links_target on deferred_links (target_id);
create index deferred_links_age on deferred_links (namespace, created_at);

-- Pairs that searches found together, by the session instances in which they did: the third one links them.
create table co_retrievals (
    namespace text not null check (namespace <> ''),
    low_id    uuid not null references nodes (id) on delete cascade,
    high_id   uuid not null references nodes (id) on delete cascade,
    instances text[] not null,    -- session and its instance; no more than are needed
    seen_at   timestamptz not null default now(),
    primary key (low_id, high_id),
    check (low_id < high_id)
) with (fillfactor = 75);
create index co_retrievals_high on co_retrievals (high_id);
create index co_retrievals_age on co_retrievals (namespace, seen_at);

grant select, insert, update, delete on link_tombstones, deferred_links, co_retrievals to engramq_worker;
