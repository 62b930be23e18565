-- What is read of the SQLite databases of other programs. Of those of sessions, what has more bytes than :longest is null.

-- name: careful
-- Let no table compute what a function with effects gives.
pragma trusted_schema = off;

-- name: tables
-- What is a table: a view has no page of its own, nor has a virtual table.
select name from sqlite_master where type = 'table' and rootpage > 0 limit :most;

-- name: opencode_sessions
select id, time_created from session where length(id) <= 1000 limit :most;

-- name: opencode_head
select substr(directory, 1, 5000), parent_id is not null from session where id = :session;

-- name: opencode_parts
select m.id, case when length(m.data) <= :longest then m.data end, case when length(p.data) <= :longest then p.data end
from message m
join part p on p.message_id = m.id
where m.session_id = :session and length(m.id) <= 1000
    and (length(p.data) > :longest or instr(p.data, '"text"') > 0 or instr(p.data, '"question"') > 0)
order by m.time_created, m.id, p.id;

-- name: cursor_composers
select key from cursorDiskKV where key >= 'composerData:' and key < 'composerData;' and length(key) <= 1000
limit :most;

-- name: cursor_value
select case when length(value) <= :longest then value end from cursorDiskKV where key = :key;

-- name: cursor_bubbles
select key from cursorDiskKV where key >= 'bubbleId:' || :composer || ':' and key < 'bubbleId:' || :composer || ';'
    and length(key) <= 1000;

-- name: cursor_workspace
select value from ItemTable where key = 'composer.composerData' and length(value) <= :longest;

-- name: computed_columns
-- The generated columns of a table.
select name from pragma_table_xinfo(:table) where hidden in (2, 3);

-- name: claude_mem_observations
select * from observations order by id;

-- name: claude_mem_summaries
select * from session_summaries order by id;

-- name: claude_mem_prompts
select p.*, s.project, s.memory_session_id
from user_prompts p
left join sdk_sessions s on s.content_session_id = p.content_session_id
order by p.id;
