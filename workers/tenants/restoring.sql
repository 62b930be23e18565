-- name: lock_restoration
-- Let nobody else restore this tenant until the end of the transaction, if nobody does now.
select pg_try_advisory_xact_lock(hashtextextended('engramq.restoring', %(tenant)s)) as locked

-- name: what_is_there
-- What a tenant holds that an export might collide with, in words.
select array_remove(array[
    case when exists (select from memories x where x.tenant = %(tenant)s) then 'memories' end,
    case when exists (select from nodes x where x.tenant = %(tenant)s and x.name is not null) then 'nodes' end,
    case when exists (select from edges x where x.tenant = %(tenant)s) then 'edges' end,
    case when exists (select from deferred_links x where x.tenant = %(tenant)s) then 'links that wait' end,
    case when exists (select from proposals x where x.tenant = %(tenant)s) then 'proposals' end,
    case when exists (select from imported_rows x where x.tenant = %(tenant)s) then 'what rows were imported' end,
    case when exists (select from deleted_graph x where x.tenant = %(tenant)s) then 'what was deleted and can be restored' end
], null) as found

-- name: taken_key
-- The first of these memories or nodes that has a key of one that is there, by its place from 1, and which.
select l.place, k.field, k.value
from unnest(%(lines)s::text[]) with ordinality as l (line, place)
cross join lateral jsonb_to_record(l.line::jsonb) as r (id uuid, external_id text, label text, name text)
cross join lateral (
    select 'id' as field, n.id::text as value from nodes n where n.tenant = %(tenant)s and n.id = r.id
    union all
    select 'external_id', n.external_id from nodes n where n.tenant = %(tenant)s and n.external_id = r.external_id
    union all
    select 'name', n.name from nodes n where n.tenant = %(tenant)s and n.label = r.label and n.name = r.name
) k
order by l.place
limit 1

-- name: chosen_model
-- The model that all vectors are, or become.
select id, name, sha256, dimensions from embedding_models
where retired_at is null
order by chosen_at desc, id desc
limit 1

-- name: write_exported_namespace
-- Set the namespace's clock, by which its memories and edges age, and its language, if this database knows it, and how it
-- keeps what is private. Keeps
-- anybody from changing the language until the end of the transaction.
with spoken as materialized (
    select (select known from languages() as known where known = %(language)s) as known
)
update namespaces n set
    active_hours = %(active_hours)s, links_decayed_at_hours = %(active_hours)s,
    language = coalesce(spoken.known, n.language), visibility = %(visibility)s, sharing_consent = %(sharing_consent)s,
    admins_read = %(admins_read)s
from spoken
where tenant = %(tenant)s

-- name: advance_audit_ids
-- Let later entries of the audit log have higher numbers than those that come.
select advance_audit_ids(%(last)s)

-- name: write_exported_memories
-- Memories with their nodes and the counters of their use. One without a vector waits for one. PostgreSQL reads the
-- lines, so that numbers keep all their digits.
with given as materialized (
    select r.*, l.embedding
    from unnest(%(lines)s::text[], %(vectors)s::text[]) as l (line, embedding)
    cross join lateral jsonb_to_record(l.line::jsonb) as r (
        {each memory: $name $type}
    )
), node as (
    insert into nodes (tenant, id, label, partition, external_id, owner, created_at, updated_at)
    select %(tenant)s, id, 'Memory', partition, external_id, owner, created_at, updated_at from given
    returning id
), used as (
    insert into memory_usage (tenant, node_id, access_count, accessed_at, helped, hindered, last_active_hours)
    select %(tenant)s, g.id, u.access_count, u.accessed_at, u.helped, u.hindered, u.last_active_hours
    from given g
    cross join lateral jsonb_to_record(g.usage) as u (
        access_count bigint, accessed_at timestamptz, helped double precision, hindered double precision,
        last_active_hours double precision
    )
    where g.usage is not null
    returning node_id
), made as (
    insert into memories (
        tenant, node_id, state, {each memory_column: $name}, lexemes, embedding, model_id, load_id
    )
    select
        %(tenant)s, id, case when state = 'active' and embedding is null then 'pending' else state end,
        {each memory_column: $name}, lexemes_of(%(tenant)s, {own_language}, content, speaker, day_told(content, occurred_at, occurred_offset)),
        embedding::halfvec, case when embedding is not null then %(model_id)s::smallint end,
        case when embedding is null then null
            when partition = 'trusted' then %(trusted_load)s::integer else %(untrusted_load)s::integer end
    from given
    returning 1
)
select count(*) as rows from made

-- name: write_exported_nodes
-- Named nodes; none of them is a memory, and so none is untrusted.
with made as (
    insert into nodes (
        tenant, partition, {each node: $name}
    )
    select %(tenant)s, 'trusted', r.*
    from unnest(%(lines)s::text[]) as line
    cross join lateral jsonb_to_record(line::jsonb) as r (
        {each node: $name $type}
    )
    returning 1
)
select count(*) as rows from made

-- name: write_exported_edges
-- Edges of one layer.
with made as (
    insert into edges (
        tenant, layer, {each edge: $name}
    )
    select %(tenant)s, %(layer)s, r.*
    from unnest(%(lines)s::text[]) as line
    cross join lateral jsonb_to_record(line::jsonb) as r (
        {each edge: $name $type}
    )
    returning 1
)
select count(*) as rows from made

-- name: write_exported_deferred_links
-- Links that wait for their ends.
with made as (
    insert into deferred_links (
        tenant, {each deferred_link: $name}
    )
    select %(tenant)s, r.*
    from unnest(%(lines)s::text[]) as line
    cross join lateral jsonb_to_record(line::jsonb) as r (
        {each deferred_link: $name $type}
    )
    returning 1
)
select count(*) as rows from made

-- name: write_exported_tombstones
-- Links that automatic writers must not make again.
with made as (
    insert into link_tombstones (tenant, low_id, high_id, created_at)
    select %(tenant)s, r.*
    from unnest(%(lines)s::text[]) as line
    cross join lateral jsonb_to_record(line::jsonb) as r (low_id uuid, high_id uuid, created_at timestamptz)
    returning 1
)
select count(*) as rows from made

-- name: write_exported_proposals
-- Proposals, then who approved them: a cluster of Citus runs the parts one after another.
with given as materialized (
    select r.*
    from unnest(%(lines)s::text[]) as line
    cross join lateral jsonb_to_record(line::jsonb) as r (
        id uuid, action text, target_id uuid, covers uuid[], new_sector text, change jsonb, proposed_by text,
        reason text, created_at timestamptz, expires_at timestamptz, rejected_at timestamptz, used_at timestamptz,
        approvals jsonb
    )
), made as (
    insert into proposals (
        tenant, id, action, target_id, covers, new_sector, change, proposed_by, reason, created_at, expires_at,
        rejected_at, used_at
    )
    select
        %(tenant)s, id, action, target_id, covers, new_sector, change, proposed_by, reason, created_at, expires_at,
        rejected_at, used_at
    from given
    returning 1
), approved as (
    insert into approvals (tenant, proposal_id, principal, approved_at)
    select %(tenant)s, g.id, a.principal, a.approved_at
    from given g
    cross join lateral jsonb_to_recordset(g.approvals) as a (principal text, approved_at timestamptz)
    returning principal
)
select count(*) as rows from made

-- name: write_exported_imported_rows
-- By what rows of imports are known again.
with made as (
    insert into imported_rows (tenant, digest, memory_id, trusted)
    select %(tenant)s, decode(r.digest, 'hex'), r.memory_id, r.trusted
    from unnest(%(lines)s::text[]) as line
    cross join lateral jsonb_to_record(line::jsonb) as r (digest text, memory_id uuid, trusted boolean)
    returning 1
)
select count(*) as rows from made

-- name: write_exported_audit
-- Entries of the audit log; those that the log has kept stay as they are. How many are in it now: a number that another
-- entry has does not count. Those with a number that is too high for everybody's sequence get one of their own. What is
-- written says that it came with an export: its maker may have written anything.
with given as materialized (
    select r.*,
        exists (
            select from audit_log a
            where a.tenant = %(tenant)s and a.id = r.id and a.at = r.at and a.action = r.action and a.actor = r.actor
        ) as there
    from unnest(%(lines)s::text[]) as line
    cross join lateral jsonb_to_record(line::jsonb) as r (
        {each audit: $name $type}
    )
), made as (
    insert into audit_log (tenant, namespace, brought_at, brought_from, {each audit: $name})
    overriding system value
    select %(tenant)s, %(namespace)s, now(), %(brought_from)s, {each audit: $name} from given
    where not there and id <= audit_ids_kept()
    on conflict (tenant, id) do nothing
    returning 1
), renumbered as (
    insert into audit_log (
        tenant, namespace, brought_at, brought_from, at, actor, action, target_id, old, new, reason, command_id, owner
    )
    select
        %(tenant)s, %(namespace)s, now(), %(brought_from)s, at, actor, action, target_id, old, new, reason, command_id,
        owner
    from given
    where not there and id > audit_ids_kept()
    order by id
    returning 1
)
select (select count(*) from made) + (select count(*) from renumbered) + (select count(*) from given where there) as rows
