-- The clock of a namespace that runs only while a session is in use, and what ages by it.

-- When sessions were in use lately: what of a further interval is not in it yet is what the clock gains.
alter table namespaces add column in_use tstzmultirange not null default '{}';

-- The clock when a memory was stored, and when it was last found.
alter table memories add column active_hours double precision not null default 0;
alter table memory_usage add column last_active_hours double precision not null default 0;

-- Up to where the clock has already worn an automatic link down.
alter table edges add column decayed_active_hours double precision not null default 0;
