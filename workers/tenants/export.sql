-- name: export_head
-- What the first line of an export says of a tenant and its database.
select c.active_hours, c.language, c.visibility, c.sharing_consent, c.admins_read, now() as exported_at,
    (select max(version) from schema_migrations) as schema_version
from namespaces c
where c.tenant = %(tenant)s

-- name: export_size
-- How many records an export of a whole tenant has.
select
    (select count(*) from memories where tenant = %(tenant)s)
    + (select count(*) from nodes where tenant = %(tenant)s and name is not null)
    + (select count(*) from edges where tenant = %(tenant)s)
    + (select count(*) from deferred_links where tenant = %(tenant)s)
    + (select count(*) from link_tombstones where tenant = %(tenant)s)
    + (select count(*) from proposals where tenant = %(tenant)s)
    + (select count(*) from imported_rows where tenant = %(tenant)s) as records

-- name: project_is_used
-- Whether any memory, whatever its partition and state, is in a project.
select exists (select from memories m where m.tenant = %(tenant)s and m.project = %(project)s) as used

-- fragment: of_whole_namespace
-- Whether no project is asked for; the knowledge graph crosses projects, and is in no export of one.
%(project)s::text is null

-- fragment: exported_pointers
-- Where a project alone is exported, a memory m names only what is in it too.
case when {of_whole_namespace} then '{}' else (
    select jsonb_build_object(
        'supersedes', min(x.node_id::text) filter (where x.node_id = m.supersedes),
        'superseded_by', min(x.node_id::text) filter (where x.node_id = m.superseded_by)
    )
    from memories x
    where x.tenant = %(tenant)s and x.node_id in (m.supersedes, m.superseded_by) and x.project = %(project)s
) end

-- fragment: exported_vector
-- The vector of a memory m, whose model is v, where vectors are asked for: half floats, as pgvector sends them.
case when %(embeddings)s and m.embedding is not null then jsonb_build_object(
    'embedding', replace(encode(substring(halfvec_send(m.embedding) from 5), 'base64'), e'\n', ''),
    'embedding_model', jsonb_build_object('name', v.name, 'sha256', v.sha256, 'dimensions', v.dimensions)
) else '{}' end

-- name: export_memories
-- Memories by their ids, with the counters of their use.
select m.node_id as after_id,
    (jsonb_build_object(
        'id', m.node_id, 'external_id', n.external_id,
        'usage', (
            select to_jsonb(u) - array['tenant', 'node_id'] from memory_usage u
            where u.tenant = %(tenant)s and u.node_id = m.node_id
        )
    ) || (to_jsonb(m) - %(left_out)s::text[]) || {exported_pointers} || {exported_vector})::text as line
from memories m
join nodes n on n.tenant = m.tenant and n.id = m.node_id
left join embedding_models v on v.id = m.model_id
where m.tenant = %(tenant)s and m.node_id > %(after_id)s and ({of_whole_namespace} or m.project = %(project)s)
order by m.node_id
limit %(limit)s

-- name: export_nodes
-- Named nodes by their ids.
select n.id as after_id, (to_jsonb(n) - %(left_out)s::text[])::text as line
from nodes n
where n.tenant = %(tenant)s and n.name is not null and n.id > %(after_id)s and {of_whole_namespace}
order by n.id
limit %(limit)s

-- name: export_edges
-- Edges of one layer by their ids.
select e.id as after_id, (to_jsonb(e) - %(left_out)s::text[])::text as line
from edges e
where e.tenant = %(tenant)s and e.layer = %(layer)s and e.id > %(after_id)s
and ({of_whole_namespace} or (
    select count(*) from memories m
    where m.tenant = %(tenant)s and m.node_id in (e.source_id, e.target_id) and m.project = %(project)s
) = 2)
order by e.id
limit %(limit)s

-- name: export_deferred_links
-- Links that wait for their ends.
select d.id as after_id, (to_jsonb(d) - %(left_out)s::text[])::text as line
from deferred_links d
where d.tenant = %(tenant)s and d.id > %(after_id)s
and ({of_whole_namespace} or (
    select count(*) from memories m
    where m.tenant = %(tenant)s and m.node_id in (d.source_id, d.target_id) and m.project = %(project)s
) = 2)
order by d.id
limit %(limit)s

-- name: export_tombstones
-- Links that automatic writers must not make again.
select t.low_id as after_id, t.high_id as after_other, (to_jsonb(t) - %(left_out)s::text[])::text as line
from link_tombstones t
where t.tenant = %(tenant)s and (t.low_id, t.high_id) > (%(after_id)s, %(after_other)s)
and ({of_whole_namespace} or (
    select count(*) from memories m
    where m.tenant = %(tenant)s and m.node_id in (t.low_id, t.high_id) and m.project = %(project)s
) = 2)
order by t.low_id, t.high_id
limit %(limit)s

-- name: export_proposals
-- Proposals by their ids, with who approved them.
select p.id as after_id,
    (jsonb_build_object('approvals', coalesce((
        select jsonb_agg(jsonb_build_object('principal', a.principal, 'approved_at', a.approved_at) order by a.approved_at)
        from approvals a
        where a.tenant = %(tenant)s and a.proposal_id = p.id
    ), '[]')) || (to_jsonb(p) - %(left_out)s::text[]))::text as line
from proposals p
where p.tenant = %(tenant)s and p.id > %(after_id)s and {of_whole_namespace}
order by p.id
limit %(limit)s

-- name: export_imported_rows
-- By what rows of imports are known again, in the order of the digests.
select r.digest as after_digest,
    ((to_jsonb(r) - %(left_out)s::text[]) || jsonb_build_object('digest', encode(r.digest, 'hex')))::text as line
from imported_rows r
where r.tenant = %(tenant)s and r.digest > %(after_digest)s
and ({of_whole_namespace} or exists (
    select from memories m where m.tenant = %(tenant)s and m.node_id = r.memory_id and m.project = %(project)s
))
order by r.digest
limit %(limit)s

-- name: export_audit
-- Entries of the audit log by their ids.
select a.id as after_entry, (to_jsonb(a) - %(left_out)s::text[])::text as line
from audit_log a
where a.tenant = %(tenant)s and a.id > %(after_entry)s and {of_whole_namespace}
order by a.id
limit %(limit)s
