-- When a memory was superseded. It keeps one hidden whose replacement was erased: superseded_by points to nothing that is
-- gone any more. It stays null for what an earlier version supersedes, which superseded_by alone hides.
alter table memories add column superseded_at timestamptz;

update memories m set superseded_at = m.updated_at, superseded_by = null
where m.superseded_by is not null
    and not exists (select from memories r where r.tenant = m.tenant and r.node_id = m.superseded_by);

create or replace view memories_in_namespace as
select
    node_id, partition, tenant, thread, position, speaker, occurred_at, sector, verification, state, superseded_by,
    lexemes, created_at, source_type, created_by, tags, project, superseded_at
from memories
where tenant = nullif(current_setting('app.tenant', true), '')::integer;
