-- A memory that fits no sector (small talk, a bare question) says so: its sector stays null, its source is none. The
-- check is wider than the one before, so no row is looked at for it.
alter table memories
    drop constraint memories_sector_source_check,
    add constraint memories_sector_source_check check (sector_source in ('auto', 'manual', 'none')) not valid;

-- Searches filter by both.
create or replace view memories_in_namespace as
select
    node_id, partition, tenant, thread, position, speaker, occurred_at, sector, verification, state, superseded_by,
    lexemes, created_at, source_type, created_by, tags, project, superseded_at, valid_from, valid_until, expires_at,
    superseded_from, sector_source, sector_confidence
from memories
where tenant = nullif(current_setting('app.tenant', true), '')::integer;
