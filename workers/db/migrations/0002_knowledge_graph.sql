-- The knowledge graph: indexes for walks and names, and proposals by which two principals consent to a change of a
-- constitutive edge.

-- The edges of a node, the heaviest of a layer first, so that a walk past a hub reads no more of them than it needs. They
-- take the place of the plain indexes, which serve the cascade from nodes too, because the planner, knowing average
-- nodes only, would rather read all of a hub's edges by those and sort them (35 instead of 1 ms for 100,000).
create index edges_out on edges (source_id, layer, weight desc, id);
create index edges_in on edges (target_id, layer, weight desc, id);
drop index edges_source;
drop index edges_target;

-- Names that resemble one that was not found: the same in another case, or with the same beginning.
create index nodes_name_folded on nodes (namespace, lower(name) text_pattern_ops) where name is not null;

-- A change that two different principals must consent to. Rows outlive the edges and nodes that they speak of.
create table proposals (
    id          uuid primary key,
    namespace   text not null check (namespace <> ''),
    action      text not null check (action in ('reclassify', 'delete')),
    target_id   uuid not null,    -- an edge, or a node that is to be deleted
    covers      uuid[] not null,  -- the constitutive edges that consent is asked for
    new_sector  text check (new_sector in ('emotional', 'episodic', 'semantic', 'procedural', 'reflective')),
    proposed_by text not null,
    reason      text,
    created_at  timestamptz not null default now(),
    expires_at  timestamptz not null,
    rejected_at timestamptz,
    used_at     timestamptz,
    check ((action = 'reclassify') = (new_sector is not null))
);
create index proposals_target on proposals (namespace, target_id);
create index proposals_recent on proposals (namespace, created_at desc, id desc);

-- Who approves a proposal: once each.
create table approvals (
    proposal_id uuid not null references proposals (id) on delete cascade,
    principal   text not null,
    namespace   text not null check (namespace <> ''),
    approved_at timestamptz not null default now(),
    primary key (proposal_id, principal)
);

grant select, insert, update on proposals to engramq_worker;
grant select, insert on approvals to engramq_worker;
