-- When a memory holds, and when it expires. superseded_from is the time from which what replaced it holds: the memory ends
-- then at the latest, and valid_until keeps what somebody gave.
alter table memories
    add column valid_from timestamptz, add column valid_until timestamptz, add column expires_at timestamptz,
    add column superseded_from timestamptz;

update memories m set superseded_from = began.at
from (
    select o.tenant, o.node_id, coalesce(r.created_at, o.superseded_at, o.updated_at) as at
    from memories o
    left join memories r on r.tenant = o.tenant and r.node_id = o.superseded_by
    where o.superseded_by is not null or o.superseded_at is not null
) began
where m.tenant = began.tenant and m.node_id = began.node_id;

-- For upkeep to archive what has expired; few rows ever expire. What is archived leaves it.
create index memories_expiring on memories (tenant, expires_at) where expires_at is not null and state <> 'archived';

create or replace view memories_in_namespace as
select
    node_id, partition, tenant, thread, position, speaker, occurred_at, sector, verification, state, superseded_by,
    lexemes, created_at, source_type, created_by, tags, project, superseded_at, valid_from, valid_until, expires_at,
    superseded_from
from memories
where tenant = nullif(current_setting('app.tenant', true), '')::integer;
