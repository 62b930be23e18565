-- The clock of a namespace that runs only while a session is in use, and what ages by it.

-- When sessions were in use since a moment (null: ever), by Redis's clock: what of a further interval is not in it yet is
-- what the clock gains. The row is rewritten about once a second while sessions are in use.
alter table namespaces
    add column in_use tstzmultirange not null default '{}',
    add column in_use_since timestamptz;
alter table namespaces set (fillfactor = 50);

-- The clock when a memory was stored, and when it was last found.
alter table memories add column active_hours double precision not null default 0;
alter table memory_usage add column last_active_hours double precision not null default 0;

-- Up to where the clock has already worn an automatic link down.
alter table edges add column decayed_active_hours double precision not null default 0;
