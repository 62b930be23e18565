-- The foundation: nodes and memories in two trust partitions, edges of both layers, ledger, audit log, and a role for
-- the workers that owns nothing. Run by the owner of the database; the extension needs a superuser or a trusted setup.

create extension if not exists vector;

-- Tenants. Upkeep works one namespace at a time from this table.
create table namespaces (
    namespace    text primary key check (namespace <> ''),
    active_hours double precision not null default 0,  -- the clock that runs only while a session is in use
    created_at   timestamptz not null default now()
);

-- Which model made a vector. Each has its own partial HNSW index, see register_embedding_model.
create table embedding_models (
    id         smallint generated always as identity primary key,
    name       text not null,
    sha256     text not null,  -- of the model file; empty for a model behind an endpoint
    dimensions integer not null check (dimensions between 1 and 4000),  -- what an HNSW index on halfvec takes
    created_at timestamptz not null default now(),
    unique (name, sha256, dimensions)
);

-- Everything an edge can end in: memories (name null) and named entities. (id, partition) is the key that memories
-- follow, so that a memory is in one partition only and moves by one update here.
create table nodes (
    id          uuid primary key,
    namespace   text not null check (namespace <> ''),
    label       text not null,
    name        text,
    partition   text not null check (partition in ('trusted', 'untrusted')),
    external_id text,
    properties  jsonb not null default '{}',
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now(),
    unique (id, partition)
);
create unique index nodes_identity on nodes (namespace, label, name) where name is not null;
create index nodes_name on nodes (namespace, name) where name is not null;
create unique index nodes_external_id on nodes (namespace, external_id) where external_id is not null;

create table memories (
    node_id       uuid not null,
    partition     text not null,
    namespace     text not null check (namespace <> ''),
    content       text not null,
    confidence    double precision not null check (confidence between 0 and 1),
    source        text not null check (source in ('extracted', 'explicit')),
    source_type   text,
    speaker       text,
    occurred_at   timestamptz,
    thread        text,
    position      integer,
    sector        text check (sector in ('emotional', 'episodic', 'semantic', 'procedural', 'reflective')),
    sector_source text check (sector_source in ('auto', 'manual')),
    sector_confidence real check (sector_confidence between 0 and 1),  -- of an automatic sector: the chance that it is right
    verification  text not null check (verification in ('unverified', 'verified', 'approved', 'rejected')),
    state         text not null check (state in ('pending', 'active', 'archived')),
    supersedes    uuid,
    superseded_by uuid,
    promoted_at   timestamptz,
    promoted_by   text,
    metadata      jsonb not null default '{}',
    lexemes       tsvector not null,  -- made by memory_lexemes
    embedding     halfvec,            -- of the content alone; null while pending
    model_id      smallint references embedding_models (id),
    links_made_at timestamptz,        -- null: the similarity links are still to be made
    created_by    text not null,
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now(),
    primary key (node_id, partition),
    foreign key (node_id, partition) references nodes (id, partition) on update cascade on delete cascade,
    check ((embedding is null) = (model_id is null)),
    check (state <> 'active' or embedding is not null),
    check (superseded_by <> node_id)
) partition by list (partition);

create table memories_trusted partition of memories for values in ('trusted')
    with (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
create table memories_untrusted partition of memories for values in ('untrusted')
    with (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- No index may hold a sector column, nor name one in its condition: writing the sector of a memory would then pay an
-- insert into each of its indexes, of which the one of vectors costs milliseconds.
create index memories_recent on memories (namespace, created_at desc, node_id desc);
create index memories_thread on memories (namespace, thread, position) where thread is not null;
create index memories_unfinished on memories (namespace, node_id) where state = 'pending';
create index memories_superseded on memories (superseded_by) where superseded_by is not null;
create index memories_moment on memories (namespace, (coalesce(occurred_at, created_at)));
create index memories_lexemes on memories using gin (lexemes);

-- Four characters before every lexeme of a namespace: so the one text index finds a tenant's rows alone, and counts
-- them alone, however many tenants share it. Two namespaces may have the same four: queries name the namespace too.
create function lexeme_prefix(namespace text) returns text
language sql immutable parallel safe
return substr(encode(decode(md5(namespace), 'hex'), 'base64'), 1, 4);

-- The words that full text finds a memory by: its content, who said it, and the date (English month name, day, year),
-- stemmed, without stop words. Immutable in fact: the time zone is given and the month names are not localised.
create function memory_lexemes(namespace text, content text, speaker text, occurred_at timestamptz) returns tsvector
language sql immutable parallel safe
return (
    select coalesce(array_to_tsvector(array_agg(lexeme_prefix(namespace) || word)), ''::tsvector)
    from unnest(tsvector_to_array(to_tsvector('english'::regconfig, content || ' ' || coalesce(speaker, '') || ' '
        || coalesce(to_char(occurred_at at time zone 'UTC', 'FMDD FMMonth YYYY'), '')))) as word
    where octet_length(word) <= 1000  -- a lexeme may have 2,046 bytes, no word of a language has
);

-- The query that finds the memories of a namespace with one lexeme, whatever characters it has.
create function lexeme_query(namespace text, lexeme text) returns tsquery
language sql immutable parallel safe
return ('''' || replace(replace(lexeme_prefix(namespace) || lexeme, '\', '\\'), '''', '''''') || '''')::tsquery;

-- Counters that change by reading and by feedback; apart from memories, whose every update costs an HNSW insert.
create table memory_usage (
    node_id      uuid primary key references nodes (id) on delete cascade,
    namespace    text not null,
    access_count bigint not null default 0,
    accessed_at  timestamptz,
    helped       double precision not null default 0,  -- outcome signals for, weighted
    hindered     double precision not null default 0   -- and against
) with (fillfactor = 70);

-- How many memories of a namespace hold a lexeme: lets full text leave out the commonest query terms. Refreshed by
-- upkeep for large namespaces only; a lexeme that is not here is rare.
create table lexeme_counts (
    namespace text not null,
    partition text not null check (partition in ('trusted', 'untrusted')),
    lexeme    text not null,  -- with its prefix
    memories  bigint not null,
    primary key (namespace, partition, lexeme)
);

create table edges (
    id                  uuid primary key,
    namespace           text not null check (namespace <> ''),
    layer               text not null check (layer in ('knowledge', 'association')),
    source_id           uuid not null references nodes (id) on delete cascade,
    target_id           uuid not null references nodes (id) on delete cascade,
    relation            text not null,
    weight              double precision not null check (weight between 0 and 1),
    origin              text not null check (origin in ('similarity', 'co_retrieval', 'outcome', 'agent', 'import')),
    reinforcement_count integer not null default 0,
    note                text,
    declared_from       uuid,  -- the end of a link that an agent or a writer named first
    last_active_hours   double precision not null default 0,
    memory_sector       text check (memory_sector in ('emotional', 'episodic', 'semantic', 'procedural', 'reflective')),
    sector_source       text check (sector_source in ('auto', 'manual')),
    properties          jsonb not null default '{}',
    created_at          timestamptz not null default now(),
    updated_at          timestamptz not null default now(),
    check (layer = 'knowledge' or source_id < target_id)  -- a link is undirected: one row per unordered pair
) with (fillfactor = 75);
create unique index edges_knowledge on edges (namespace, source_id, target_id, relation) where layer = 'knowledge';
create unique index edges_association on edges (namespace, source_id, target_id) where layer = 'association';
create index edges_source on edges (source_id);
create index edges_target on edges (target_id);

-- Who did what. Append-only for the workers, by grant.
create table audit_log (
    id         bigint generated always as identity primary key,
    at         timestamptz not null default now(),
    namespace  text not null check (namespace <> ''),
    actor      text not null,
    action     text not null,
    target_id  uuid,
    old        jsonb,
    new        jsonb,
    reason     text,
    command_id uuid
);
create index audit_log_target on audit_log (namespace, target_id);

-- One row per write command that has ended: delivery is at least once, effects are once. `answer` is without memory
-- contents (they are read again when it is sent again), so that erasing a memory leaves nothing here.
create table ledger (
    command_id      uuid primary key,
    namespace       text not null check (namespace <> ''),
    principal       text not null,
    command         text not null,  -- the command's tag
    idempotency_key text,
    fingerprint     text not null default '',
    memory_id       uuid,           -- the memory that the answer is about
    attempt         integer not null default 1,
    answer          jsonb,
    created_at      timestamptz not null default now()
) with (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.05);
create unique index ledger_idempotency on ledger (namespace, principal, idempotency_key) where idempotency_key is not null;
create index ledger_memory on ledger (memory_id) where memory_id is not null;
create index ledger_age on ledger using brin (created_at);

-- Return the id of an embedding model, making its row and its vector index when it is new. The workers' role cannot
-- make indexes, hence security definer; the arguments reach no SQL text but as numbers.
create function register_embedding_model(model_name text, model_sha256 text, model_dimensions integer) returns smallint
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    found_id smallint;
begin
    select id into found_id from embedding_models
    where name = model_name and sha256 = model_sha256 and dimensions = model_dimensions;
    if found then
        return found_id;
    end if;
    perform pg_advisory_xact_lock(hashtextextended('engramq.embedding_models', 0));
    insert into embedding_models (name, sha256, dimensions)
    values (model_name, model_sha256, model_dimensions)
    on conflict (name, sha256, dimensions) do nothing;
    select id into strict found_id from embedding_models
    where name = model_name and sha256 = model_sha256 and dimensions = model_dimensions;
    execute format(
        'create index if not exists %I on memories using hnsw ((embedding::halfvec(%s)) halfvec_cosine_ops) '
        'with (m = 16, ef_construction = 64) where model_id = %s',
        'memories_embedding_' || found_id, model_dimensions, found_id);
    return found_id;
end
$$;
revoke all on function register_embedding_model(text, text, integer) from public;

-- The workers' role: may read and write rows, owns nothing, cannot change the audit log.
do $$
begin
    if not exists (select from pg_roles where rolname = 'engramq_worker') then
        create role engramq_worker login nosuperuser nocreatedb nocreaterole noreplication nobypassrls;
    end if;
    -- The owner may step down to it. Superusers count as members of every role.
    if not pg_has_role(current_user, 'engramq_worker', 'member') then
        execute format('grant engramq_worker to %I', current_user);
    end if;
end
$$;
grant usage on schema public to engramq_worker;
grant select, insert, update, delete on
    nodes, memories, memory_usage, lexeme_counts, edges, ledger, namespaces to engramq_worker;
grant select on embedding_models, schema_migrations to engramq_worker;
grant select, insert on audit_log to engramq_worker;
grant execute on function register_embedding_model(text, text, integer) to engramq_worker;
